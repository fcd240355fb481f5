// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_swap.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

absl::Status RenameTo(const std::string& from, const std::string& to,
                      unsigned flags) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, fmt::format("rename {} to {}", from, to));
}

}  // namespace

absl::StatusOr<std::string> IndexSwap::Keep(const std::string& directory) {
  for (int number = 1;; ++number) {
    const std::string kept =
        fmt::format("{}/index.damaged-{}", store_directory_, number);
    if (Exists(kept)) continue;
    MSITD_RETURN_IF_ERROR(RenameTo(directory, kept, 0));
    MSITD_RETURN_IF_ERROR(env_.SyncDirectory(store_directory_));
    return kept;
  }
}

std::string IndexSwap::current() const {
  return Exists(index()) || !Exists(built()) ? index() : built();
}

absl::Status IndexSwap::Prepare() {
  std::error_code error;
  fs::remove_all(building(), error);
  if (error) return ErrnoStatus(error.value(), "remove " + building());
  if (!Exists(built())) return absl::OkStatus();
  if (Exists(index())) return Keep(built()).status();
  MSITD_RETURN_IF_ERROR(RenameTo(built(), index(), 0));
  return env_.SyncDirectory(store_directory_);
}

absl::StatusOr<std::string> IndexSwap::Swap() {
  MSITD_RETURN_IF_ERROR(RenameTo(building(), built(), 0));
  MSITD_RETURN_IF_ERROR(env_.SyncDirectory(store_directory_));
  std::string kept;
  if (Exists(index())) {
    if (RenameTo(built(), index(), RENAME_EXCHANGE).ok()) {
      return Keep(built());
    }
    MSITD_ASSIGN_OR_RETURN(kept, Keep(index()));
  }
  MSITD_RETURN_IF_ERROR(RenameTo(built(), index(), 0));
  MSITD_RETURN_IF_ERROR(env_.SyncDirectory(store_directory_));
  return kept;
}

}  // namespace msitd::storage
