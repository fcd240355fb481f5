// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "msitd/v1/comparison_service.pb.h"

// Reports of a stored comparison, written row by row. docs/reports.md describes
// the contents of each, and the differences from the tool it is named after.
namespace msitd::ask {

class TableSchema;
class TableSink;

// Takes the next bytes of a report.
using ReportSink = std::function<absl::Status(std::string_view)>;

// Writes one report. Thread-compatible.
class ReportWriter {
 public:
  virtual ~ReportWriter() = default;

  // Called once, first.
  virtual absl::Status Begin(const v1::Comparison& comparison) = 0;

  // FAILED_PRECONDITION if the row lacks what the report needs.
  virtual absl::Status Add(const v1::ComparisonRow& row) = 0;

  // Called once, last. Returns a note for the user, or nothing.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

// Any schema of schema/schemas.h in any format of table/sinks.h.
std::unique_ptr<ReportWriter> MakeTableReport(
    std::unique_ptr<TableSchema> schema, std::unique_ptr<TableSink> table);

// Proto JSON: the Comparison in the first line, a ComparisonRow in each of the
// others.
std::unique_ptr<ReportWriter> MakeMessageReport(ReportSink sink);

}  // namespace msitd::ask
