// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Consecutive ranks, `last` included.
struct RankRange {
  int32_t first = 0;
  int32_t last = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

// Returns ascending ranks as ranges, which ascend and do not touch.
std::vector<RankRange> ToRanges(std::span<const int32_t> ranks);

// Which ranks of a run an answer covers.
struct RunRanks {
  // The ranks that have tensors, and those that streamed and whose tensors the
  // capture policy left out entirely; ascending. A rank that streamed and
  // recorded nothing, though the policy asks everything of it, is not among
  // them.
  std::vector<int32_t> held;
  // The other ranks of the world that the capture policy asks something of.
  // Ranges, because a run may claim a world of a million ranks; they ascend and
  // do not touch. Empty if the world size is not known.
  std::vector<RankRange> lacking;
};

// Finds which ranks of a run have come. If `selected` is not empty, only its
// ranks count. Takes time in proportion to the ranks that have tensors,
// reported coverage, or are named in the policy or in `selected`, whatever the
// world size.
//
// Errors: those of the reader.
absl::StatusOr<RunRanks> FindRunRanks(RunReader& run,
                                      std::span<const int32_t> selected);

// The same for a run whose `info` the caller has already.
absl::StatusOr<RunRanks> FindRunRanks(RunReader& run, const RunInfo& info,
                                      std::span<const int32_t> selected);

}  // namespace msitd::storage
