// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace msitd::server {

// A connection that gRPC has, and closes when it likes. Once it is closed,
// another file may get its number, but not its inode.
class HeldSocket {
 public:
  // `fd` is an open socket.
  explicit HeldSocket(int fd);

  bool IsOpen() const;

 private:
  int fd_;
  ino_t inode_;
};

}  // namespace msitd::server
