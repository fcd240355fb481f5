// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// Copies of comparisons from other stores, as documents and rows in the format
// of the store. The bytes are untrusted.
namespace msitd::compare {

// The fields of a document that are needed to copy the comparison.
struct ComparisonBrief {
  std::string golden_run;
  std::string target_run;
  // True if the run is in the same store as the document.
  bool is_golden_local = false;
  bool is_target_local = false;
  bool has_ended = false;
  uint64_t row_count = 0;
  int64_t create_time_ns = 0;  // In nanoseconds since the Unix epoch.
  int custom_metric_count = 0;
};

// Parses a document.
//
// Errors: DATA_LOSS if it is not the document of a comparison.
absl::StatusOr<ComparisonBrief> BriefOfComparison(std::string_view document);

// The changes to a comparison whose target run is copied.
struct ComparisonMove {
  std::string target_run;     // The new name of the run.
  std::string owner;          // The owner of the copy.
  std::string restored_from;  // See v1.Comparison.
};

// Returns the document of the copy.
//
// Errors: DATA_LOSS if `document` is not that of a comparison that has ended
// and has the local run `target_run` as its target.
absl::StatusOr<std::string> MoveComparison(std::string_view document,
                                           std::string_view target_run,
                                           const ComparisonMove& move);

// Returns a placeholder for the document of the copy, until all rows are
// copied. It describes a failed comparison without rows.
//
// Errors: those of MoveComparison.
absl::StatusOr<std::string> HoldComparison(std::string_view moved);

// Returns row number `row` of the copy.
//
// Errors: DATA_LOSS if `bytes` are not the row with that number.
absl::StatusOr<std::string> MoveComparisonRow(std::string_view bytes,
                                              uint64_t row,
                                              const ComparisonBrief& brief,
                                              const ComparisonMove& move);

}  // namespace msitd::compare
