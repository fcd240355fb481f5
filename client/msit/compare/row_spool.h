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

// The maximum number of rows of one report. Each row takes about 100 bytes of
// memory.
inline constexpr size_t kReportRowsMax = size_t{1} << 24;

// Lines of a report that are produced in another order than they are written.
// They are stored in an unnamed temporary file. Thread-compatible.
class RowSpool {
 public:
  struct Row {
    int64_t token = 0;
    uint32_t op = 0;
    // True if exactly one side is int8.
    bool one_is_int8 = false;
    // True if the numbers of elements of both sides differ.
    bool shapes_differ = false;
    // The key by which msit sorts the report.
    std::string key;
    // A number that the caller assigns.
    int64_t id = 0;

    // The location of its line, which Add sets.
    uint32_t bytes = 0;
    uint64_t begin = 0;
  };

  static absl::StatusOr<RowSpool> Make();

  // Returns RESOURCE_EXHAUSTED beyond kReportRowsMax.
  absl::Status Add(Row row, std::string_view line);

  // All rows in the order in which they were added. The caller may reorder
  // them.
  std::vector<Row>& rows() { return rows_; }

  // Reads the line of a row.
  absl::Status Read(const Row& row, std::string& line);

 private:
  explicit RowSpool(UniqueFd file) : file_(std::move(file)) {}
  absl::Status Flush();
  // Reads the line of a row, and the bytes after it.
  absl::Status ReadWindow(const Row& row);

  UniqueFd file_;
  std::vector<Row> rows_;
  // Lines that are not in the file yet. They begin at `flushed_`.
  std::string buffer_;
  uint64_t flushed_ = 0;
  // A part of the file, which begins at `window_begin_`.
  std::string window_;
  uint64_t window_begin_ = 0;
};

}  // namespace msitd::msit_command
