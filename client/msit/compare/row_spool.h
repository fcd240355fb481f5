// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::msit_command {

// Rows of one report. What is known of them in memory takes some 100 bytes
// each.
inline constexpr size_t kReportRowsMax = size_t{1} << 24;

// Lines of a report that come in another order than they are written. They lie
// in a file without a name, in the folder for temporary files.
// Thread-compatible.
class RowSpool {
 public:
  struct Row {
    int64_t token = 0;
    uint32_t op = 0;
    // True if one side alone is of int8.
    bool one_is_int8 = false;
    // By which msit sorts the report.
    std::string key;
    // What the caller counts.
    int64_t id = 0;

    // Where its line is: filled in by Add.
    uint32_t bytes = 0;
    uint64_t begin = 0;
  };

  static absl::StatusOr<RowSpool> Make();

  // RESOURCE_EXHAUSTED beyond kReportRowsMax.
  absl::Status Add(Row row, std::string_view line);

  // All rows as they came; the caller may put them into another order.
  std::vector<Row>& rows() { return rows_; }

  // Reads the line of a row.
  absl::Status Read(const Row& row, std::string& line);

 private:
  explicit RowSpool(UniqueFd file) : file_(std::move(file)) {}
  absl::Status Flush();
  // Reads the line of a row, and what is behind it.
  absl::Status ReadWindow(const Row& row);

  UniqueFd file_;
  std::vector<Row> rows_;
  // What is not in the file yet, which begins at `flushed_`.
  std::string buffer_;
  uint64_t flushed_ = 0;
  // A part of the file, which begins at `window_begin_`.
  std::string window_;
  uint64_t window_begin_ = 0;
};

}  // namespace msitd::msit_command
