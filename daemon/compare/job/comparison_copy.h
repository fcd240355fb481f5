// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// Comparisons that come from elsewhere, as documents and rows that the store
// keeps. Anybody may have written them.
namespace msitd::compare {

// What a document says, for whoever copies the comparison.
struct ComparisonBrief {
  std::string golden_run;
  std::string target_run;
  // Both runs are of the store that the document lies in.
  bool is_golden_local = false;
  bool is_target_local = false;
  bool has_ended = false;
  uint64_t row_count = 0;
  int64_t create_time_ns = 0;  // Since the Unix epoch.
  int custom_metric_count = 0;
};

// Errors: DATA_LOSS for what is no document of a comparison.
absl::StatusOr<ComparisonBrief> BriefOfComparison(std::string_view document);

// What becomes of a comparison whose target run is copied.
struct ComparisonMove {
  std::string target_run;     // Its name from now on.
  std::string owner;          // Of the copy.
  std::string restored_from;  // See v1.Comparison.
};

// Returns the document of the copy.
//
// Errors: DATA_LOSS for what is no document of a comparison of that run that
// has ended.
absl::StatusOr<std::string> MoveComparison(std::string_view document,
                                           std::string_view target_run,
                                           const ComparisonMove& move);

// The document that stands for the copy until all of its rows are there.
//
// Errors: those of MoveComparison.
absl::StatusOr<std::string> HoldComparison(std::string_view moved);

// Returns row number `row` for the copy.
//
// Errors: DATA_LOSS for what is no row of that number.
absl::StatusOr<std::string> MoveComparisonRow(std::string_view bytes,
                                              uint64_t row,
                                              const ComparisonBrief& brief,
                                              const ComparisonMove& move);

}  // namespace msitd::compare
