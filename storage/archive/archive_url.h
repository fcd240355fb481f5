// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::storage {

// URL of a folder of runs: `file:///DIRECTORY` or `s3://BUCKET/PREFIX`, without
// a trailing slash.
struct ArchiveUrl {
  bool is_s3 = false;
  std::string bucket = {};  // For S3 only.
  // Components separated by `/`, none of which is empty, `.` or `..`. A
  // directory begins with `/`; a prefix does not, and may be empty.
  std::string path;

  std::string ToString() const;

  // True if this is equal to `other` or below it.
  bool IsWithin(const ArchiveUrl& other) const;
  // Returns the path relative to `other`, which must contain this one; without
  // slashes at its ends.
  std::string Below(const ArchiveUrl& other) const;

  friend bool operator==(const ArchiveUrl&, const ArchiveUrl&) = default;
};

// True if `text` is a URL, not necessarily of an archive.
bool IsUrl(std::string_view text);

// Errors: INVALID_ARGUMENT with FIELD_INVALID. The message does not repeat text
// that could contain a secret, such as a URL with a user or a query.
absl::StatusOr<ArchiveUrl> ParseArchiveUrl(std::string_view text);

// Returns the folder of a run relative to the folder of an archive. This is the
// name of the run with `_xHH` in place of each byte outside of [A-Za-z0-9._-],
// of a leading dot, and of `_` before `x`.
//
// Errors: INVALID_ARGUMENT with NAME_TOO_LONG if the result has more than
// kRunFolderBytesMax bytes.
absl::StatusOr<std::string> RunFolder(std::string_view run);
inline constexpr size_t kRunFolderBytesMax = 240;

// Inverse of RunFolder; an empty string for text that RunFolder never returns.
std::string RunOfFolder(std::string_view folder);

}  // namespace msitd::storage
