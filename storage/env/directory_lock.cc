// SPDX-License-Identifier: Apache-2.0
#include "storage/env/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr mode_t kPrivateDirectoryMode = 0700;
constexpr mode_t kLockFileMode = 0600;

absl::Status MakePrivate(int fd, mode_t mode, const std::string& path) {
  if (::fchmod(fd, mode) == 0 || errno == EPERM || errno == EROFS) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "change the permissions of " + path);
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(
    const std::string& directory, Mode mode) {
  const std::string path = directory + "/LOCK";
  const bool exclusive = mode == Mode::kExclusive;
  UniqueFd fd(::open(path.c_str(),
                     (exclusive ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC,
                     kLockFileMode));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  if (exclusive) {
    const UniqueFd folder(
        ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return ErrnoStatus(errno, "open " + directory);
    MSITD_RETURN_IF_ERROR(
        MakePrivate(folder.get(), kPrivateDirectoryMode, directory));
    MSITD_RETURN_IF_ERROR(MakePrivate(fd.get(), kLockFileMode, path));
  }
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
