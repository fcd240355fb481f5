// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::msit_command {

// A larger file is refused.
inline constexpr uint64_t kCsvBytesMax = uint64_t{1} << 30;
inline constexpr size_t kCsvColumnsMax = 4096;

// A CSV file of others: RFC 4180 in UTF-8, with LF or CRLF.
struct CsvTable {
  std::vector<std::string> header;
  // Each has as many fields as the header. A row that ends early is filled up
  // with empty ones, and blank lines are left out, as pandas does.
  std::vector<std::vector<std::string>> rows;
};

// INVALID_ARGUMENT for a quote that is not closed, a row longer than the
// header, a column name that is there twice, and text without a header.
absl::StatusOr<CsvTable> ParseCsv(std::string_view text);

// The same for a file. RESOURCE_EXHAUSTED beyond kCsvBytesMax; an error of the
// system if it cannot be read. Errors name `path`.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

}  // namespace msitd::msit_command
