// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/held_socket.h"

#include <sys/stat.h>

#include "protos/base/check.h"

namespace msitd::server {

HeldSocket::HeldSocket(int fd) : fd_(fd) {
  struct stat info {};
  MSITD_CHECK(::fstat(fd, &info) == 0);
  inode_ = info.st_ino;
}

bool HeldSocket::IsOpen() const {
  struct stat info {};
  return ::fstat(fd_, &info) == 0 && S_ISSOCK(info.st_mode) &&
         info.st_ino == inode_;
}

}  // namespace msitd::server
