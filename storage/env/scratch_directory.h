// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace msitd::storage {

// A new directory for temporary files. The destructor removes it with its
// contents. Thread-compatible.
class ScratchDirectory {
 public:
  // Makes a directory in `parent`, which exists, with a name that begins with
  // `prefix`.
  //
  // Errors: those of the file system.
  static absl::StatusOr<std::unique_ptr<ScratchDirectory>> Make(
      const std::string& parent, const std::string& prefix);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace msitd::storage
