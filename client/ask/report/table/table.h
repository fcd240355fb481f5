// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/report/table/cell.h"
#include "msitd/v1/comparison_service.pb.h"

// A report that is a table. The schema converts rows to cells, and the sink
// writes them. Any schema can be combined with any sink.
namespace msitd::ask {

// Writes a table. Thread-compatible.
class TableSink {
 public:
  virtual ~TableSink() = default;

  // Called once, first.
  virtual absl::Status Begin(const std::vector<std::string>& headings) = 0;

  // One row, with a cell for each heading. FAILED_PRECONDITION if the format
  // has no room for more.
  virtual absl::Status Add(const Cells& cells) = 0;

  // Called once, last.
  virtual absl::Status Finish() = 0;
};

// The columns of a report, and their contents. Thread-compatible.
class TableSchema {
 public:
  virtual ~TableSchema() = default;

  // Called once, first. Returns the headings.
  virtual std::vector<std::string> Begin(const v1::Comparison& comparison) = 0;

  // Gives `table` the rows that can be written once `row` is known: none, one
  // or more. FAILED_PRECONDITION if the row lacks what the report needs.
  virtual absl::Status Add(const v1::ComparisonRow& row, TableSink& table) = 0;

  // Gives `table` the rows that are left. Called once, last. Returns a note for
  // the user, or nothing.
  virtual absl::StatusOr<std::string> Finish(TableSink& table) = 0;
};

}  // namespace msitd::ask
