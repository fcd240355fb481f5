// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/held_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "protos/base/check.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

HeldSocket::HeldSocket(int fd) : fd_(fd) {
  struct stat info {};
  MSITD_CHECK(::fstat(fd, &info) == 0);
  inode_ = info.st_ino;
}

bool HeldSocket::IsOpen() const { return IsAt(fd_); }

bool HeldSocket::IsAt(int fd) const {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) &&
         info.st_ino == inode_;
}

void HeldSocket::ShutDown() const {
  // gRPC may close the connection at this moment, and another file may get its
  // number. A descriptor of our own keeps referring to the same file.
  const UniqueFd copy(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (copy.valid() && IsAt(copy.get())) ::shutdown(copy.get(), SHUT_RDWR);
}

}  // namespace msitd::server
