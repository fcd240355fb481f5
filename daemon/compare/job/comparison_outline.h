// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/job/comparison_engine.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Number of token spans of an outline above which spans of the same rank are
// joined.
inline constexpr size_t kOutlineSpansMax = size_t{1} << 16;

// Maximum number of groups to load for the estimates of an outline.
inline constexpr size_t kSampledGroupsMax = 8;

// The size of a comparison, for clients that divide it into parts. Groups are
// compared one by one, so comparing some of them results in the same rows for
// these groups.
struct ComparisonOutline {
  // Groups of one rank. The rank may be the number of a mesh or of a layout.
  struct Span {
    int32_t rank = 0;
    int64_t first_token = 0;
    int64_t last_token = 0;
    int64_t group_count = 0;
    // True if all tokens of the rank must be compared together.
    bool is_whole = false;
  };
  // Sorted by rank, then token. Each group is in exactly one span.
  std::vector<Span> spans;

  // Estimates from groups that are spread evenly over all groups: the number of
  // groups, of their pairs, and of bytes to read from both runs.
  int64_t sampled_group_count = 0;
  int64_t sampled_pair_count = 0;
  int64_t sampled_read_bytes = 0;
  // See FindRunId.
  std::string golden_run_id;
  std::string target_run_id;
};

// Returns what `plan` would compare. Compares nothing, but loads
// kSampledGroupsMax groups.
//
// Errors: that of `stop`; those of the runs and of GroupMatcher::Create.
absl::StatusOr<ComparisonOutline> FindOutline(storage::RunReaders& readers,
                                              const ComparisonPlan& plan,
                                              storage::StopCheck stop);

}  // namespace msitd::compare
