// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace msitd::server {

// A connection that gRPC owns and may close at any time. After it is closed,
// another file may get the same descriptor number, but not the same inode.
class HeldSocket {
 public:
  // `fd` is an open socket.
  explicit HeldSocket(int fd);

  bool IsOpen() const;

  // Ends the connection if it is open, as if the network had failed. gRPC then
  // closes the descriptor.
  void ShutDown() const;

 private:
  bool IsAt(int fd) const;

  int fd_;
  ino_t inode_;
};

}  // namespace msitd::server
