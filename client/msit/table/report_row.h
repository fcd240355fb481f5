// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/report/table/cell.h"

namespace msitd::v1 {
class Comparison;
class ComparisonRow;
}  // namespace msitd::v1

namespace msitd::msit_command {

// The columns of msit's report with metrics, in its order.
inline constexpr std::string_view kMetricColumns[] = {
    "cosine_similarity",          "max_relative_error",  "mean_relative_error",
    "max_absolute_error",         "mean_absolute_error", "kl_divergence",
    "relative_euclidean_distance"};

// One row of msit's report by its columns.
class ReportRow {
 public:
  explicit ReportRow(std::map<std::string, ask::Cell, std::less<>> cells)
      : cells_(std::move(cells)) {}

  // Returns an empty cell if there is no such column.
  ask::Cell At(std::string_view column) const;
  // Returns the number in a column; NaN for an empty cell, which is how the
  // report writes NaN.
  double NumberAt(std::string_view column) const;
  // Why nothing was measured; empty if it was.
  std::string reason() const;

 private:
  std::map<std::string, ask::Cell, std::less<>> cells_;
};

// Creates the row of a pair. Returns INTERNAL if the row has no pair.
absl::StatusOr<ReportRow> MakeReportRow(const v1::Comparison& comparison,
                                        const v1::ComparisonRow& row);

}  // namespace msitd::msit_command
