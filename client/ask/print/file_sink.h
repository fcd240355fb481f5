// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::ask {

// Writes a file that appears either complete or not at all: the bytes are
// written to a temporary file in the same folder, which Commit renames. If the
// path exists and is not a regular file, such as a pipe, it is written
// directly. Thread-compatible.
class FileSink {
 public:
  // "-" is stdout. FAILED_PRECONDITION if that is a terminal.
  static absl::StatusOr<FileSink> Open(const std::string& path,
                                       bool stdout_is_terminal);

  FileSink(FileSink&&) = default;
  FileSink& operator=(FileSink&&) = delete;
  // Removes the file unless it was committed.
  ~FileSink();

  absl::Status Write(std::string_view bytes);

  // Gives the file its final name. Nothing may be written afterwards.
  absl::Status Commit();

 private:
  FileSink(std::string path, std::string partial, UniqueFd fd);

  std::string path_;
  std::string partial_;  // Empty if `path_` itself is written.
  UniqueFd fd_;
};

}  // namespace msitd::ask
