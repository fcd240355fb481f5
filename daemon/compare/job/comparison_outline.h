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

// Stretches of tokens of an outline. Beyond that, those of a rank are joined.
inline constexpr size_t kOutlineSpansMax = size_t{1} << 16;

// Groups that an outline looks into.
inline constexpr size_t kSampledGroupsMax = 8;

// What a comparison would look at, for those who cut it into parts: groups are
// compared one by one, and whoever compares some has the same rows of them.
struct ComparisonOutline {
  // Groups of one rank, which may be the number of a mesh or a layout.
  struct Span {
    int32_t rank = 0;
    int64_t first_token = 0;
    int64_t last_token = 0;
    int64_t group_count = 0;
    // All tokens of the rank must be compared together.
    bool is_whole = false;
  };
  // By rank, then token. No group is in two of them.
  std::vector<Span> spans;

  // Of groups that lie evenly among all: how many, their pairs, and the bytes
  // that would be read of both sides.
  int64_t sampled_group_count = 0;
  int64_t sampled_pair_count = 0;
  int64_t sampled_read_bytes = 0;
  // See FindRunId.
  std::string golden_run_id;
  std::string target_run_id;
};

// Finds out what `plan` would look at. Compares nothing.
//
// Errors: that of `stop`; those of the runs and of GroupMatcher::Create.
absl::StatusOr<ComparisonOutline> FindOutline(storage::RunReaders& readers,
                                              const ComparisonPlan& plan,
                                              storage::StopCheck stop);

}  // namespace msitd::compare
