// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::storage {

// Names a folder of runs: `file:///DIRECTORY` or `s3://BUCKET/PREFIX`, without
// a slash at its end.
struct ArchiveUrl {
  bool is_s3 = false;
  std::string bucket = {};  // Of S3.
  // Components parted by `/`: none is empty, `.` or `..`. The directory begins
  // with `/`; the prefix does not, and may be empty.
  std::string path;

  std::string ToString() const;

  // True if this is `other`, or lies below it.
  bool IsWithin(const ArchiveUrl& other) const;
  // What the path has beyond that of `other`, which this lies within; without
  // slashes at its ends.
  std::string Below(const ArchiveUrl& other) const;

  friend bool operator==(const ArchiveUrl&, const ArchiveUrl&) = default;
};

// True if `text` is a URL, whether or not of an archive.
bool IsUrl(std::string_view text);

// INVALID_ARGUMENT with FIELD_INVALID. What could have a secret in it, such as
// a URL with a user or a query, is not repeated.
absl::StatusOr<ArchiveUrl> ParseArchiveUrl(std::string_view text);

// Returns the folder of a run below the folder of an archive: its name, with
// `_xHH` for each byte that is not of [A-Za-z0-9._-], for a dot at its begin
// and for `_` before `x`.
//
// Errors: INVALID_ARGUMENT with NAME_TOO_LONG if that has more than
// kRunFolderBytesMax.
absl::StatusOr<std::string> RunFolder(std::string_view run);
inline constexpr size_t kRunFolderBytesMax = 240;

// The inverse; an empty string for what RunFolder never returns.
std::string RunOfFolder(std::string_view folder);

}  // namespace msitd::storage
