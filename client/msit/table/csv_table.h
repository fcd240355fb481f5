// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::msit_command {

// A larger file is rejected.
inline constexpr uint64_t kCsvBytesMax = uint64_t{1} << 30;
inline constexpr size_t kCsvColumnsMax = 4096;

// An untrusted CSV file: RFC 4180 in UTF-8, with LF or CRLF.
struct CsvTable {
  std::vector<std::string> header;
  // Each row has as many fields as the header. As in pandas, missing fields at
  // the end of a row are empty, and blank lines are ignored.
  std::vector<std::vector<std::string>> rows;
};

// Returns INVALID_ARGUMENT for a quote that is not closed, a row longer than
// the header, a duplicate column name, and text without a header.
absl::StatusOr<CsvTable> ParseCsv(std::string_view text);

// The same for a file. Returns RESOURCE_EXHAUSTED beyond kCsvBytesMax, or a
// system error if the file cannot be read. Errors name `path`.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

}  // namespace msitd::msit_command
