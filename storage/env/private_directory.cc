// SPDX-License-Identifier: Apache-2.0
#include "storage/env/private_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr mode_t kOthersMode = S_IRWXG | S_IRWXO;

absl::Status TakeFromOthers(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "stat " + path);
  }
  if ((info.st_mode & kOthersMode) == 0) return absl::OkStatus();
  if (::chmod(path.c_str(), info.st_mode & S_IRWXU) != 0) {
    return ErrnoStatus(errno, "chmod " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakePrivate(const std::string& directory, PrivateDepth depth) {
  namespace fs = std::filesystem;
  // First, so that nobody opens a file while the others are changed.
  absl::Status status = TakeFromOthers(directory);
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (const fs::recursive_directory_iterator end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const fs::file_type type = it->symlink_status(gone).type();
    const bool is_directory = type == fs::file_type::directory;
    if (is_directory && depth == PrivateDepth::kFiles) {
      it.disable_recursion_pending();
      continue;
    }
    if (is_directory || type == fs::file_type::regular) {
      status.Update(TakeFromOthers(it->path().string()));
    }
  }
  if (error) status.Update(ErrnoStatus(error.value(), "list " + directory));
  return status;
}

}  // namespace msitd::storage
