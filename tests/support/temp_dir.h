// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "protos/base/check.h"

namespace msitd::testing {

// Owns a new directory in the folder for temporary files, and removes it with
// its contents.
class TempDir {
 public:
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}

  // Returns a directory in memory if such a file system exists, for tests with
  // so many syncs that a disk would make them slow.
  static TempDir InMemory() {
    const std::filesystem::path memory = "/dev/shm";
    return TempDir(std::filesystem::is_directory(memory)
                       ? memory
                       : std::filesystem::temp_directory_path());
  }

  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  explicit TempDir(const std::filesystem::path& parent)
      : path_((parent / "msitd-XXXXXX").string()) {
    MSITD_CHECK(::mkdtemp(path_.data()) != nullptr);
  }

  std::string path_;
};

}  // namespace msitd::testing
