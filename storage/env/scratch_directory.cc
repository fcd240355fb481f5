// SPDX-License-Identifier: Apache-2.0
#include "storage/env/scratch_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "protos/status/status.h"

namespace msitd::storage {

absl::StatusOr<std::unique_ptr<ScratchDirectory>> ScratchDirectory::Make(
    const std::string& parent, const std::string& prefix) {
  std::string path = parent + "/" + prefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, "make a temporary directory in " + parent);
  }
  return std::unique_ptr<ScratchDirectory>(
      new ScratchDirectory(std::move(path)));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace msitd::storage
