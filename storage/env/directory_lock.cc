// SPDX-License-Identifier: Apache-2.0
#include "storage/env/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(
    const std::string& directory, Mode mode) {
  const std::string path = directory + "/LOCK";
  const bool exclusive = mode == Mode::kExclusive;
  UniqueFd fd(::open(path.c_str(),
                     (exclusive ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC,
                     0600));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  while (::flock(fd.get(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "the store in {} is in use by another process",
                        directory);
    }
    return ErrnoStatus(errno, "lock " + path);
  }
  return DirectoryLock(std::move(fd));
}

}  // namespace msitd::storage
