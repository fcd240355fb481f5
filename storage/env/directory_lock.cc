// SPDX-License-Identifier: Apache-2.0
#include "storage/env/directory_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr mode_t kPrivateDirectoryMode = 0700;
constexpr mode_t kLockFileMode = 0600;
constexpr char kLockFile[] = "LOCK";
// Directories of a store that have its tensors, summaries and names.
constexpr std::string_view kDataDirectories[] = {"index", "segments"};

// Removes the permissions of group and others. Only the owner can do this; a
// volume of another user or a read-only one is not changed.
absl::Status MakePrivate(int fd, mode_t mode, const std::string& path) {
  if (::fchmod(fd, mode) == 0 || errno == EPERM || errno == EROFS) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "change the permissions of " + path);
}

bool IsOfStore(std::string_view name) {
  return name == "." || name == ".." || name == kLockFile ||
         name == "ballast" || name == "index" || name == "segments" ||
         name.starts_with("index.") || name == "lost+found";
}

// True if the directory contains only files and directories of a store.
absl::StatusOr<bool> HasOnlyAStore(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()),
                                                   &::closedir);
  if (stream == nullptr) return ErrnoStatus(errno, "list " + directory);
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, "list " + directory);
      return true;
    }
    if (!IsOfStore(entry->d_name)) return false;
  }
}

absl::Status MakeDirectoryPrivate(const std::string& path, int flags) {
  const UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  return MakePrivate(fd.get(), kPrivateDirectoryMode, path);
}

absl::Status MakeStorePrivate(const std::string& directory) {
  MSITD_ASSIGN_OR_RETURN(const bool is_own, HasOnlyAStore(directory));
  if (is_own) MSITD_RETURN_IF_ERROR(MakeDirectoryPrivate(directory, 0));
  for (const std::string_view name : kDataDirectories) {
    std::string path = directory;
    path.append("/").append(name);
    struct stat info {};
    // A link may lead to a directory that has more than the segments.
    const bool is_made =
        ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (is_made) MSITD_RETURN_IF_ERROR(MakeDirectoryPrivate(path, O_NOFOLLOW));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(
    const std::string& directory, Mode mode) {
  const std::string path = directory + "/" + kLockFile;
  const bool exclusive = mode == Mode::kExclusive;
  UniqueFd fd(
      ::open(path.c_str(),
             (exclusive ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW,
             kLockFileMode));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  if (exclusive) {
    MSITD_RETURN_IF_ERROR(MakeStorePrivate(directory));
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
