// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::storage {

// A range of consecutive ranks, including `last`.
struct RankRange {
  int32_t first = 0;
  int32_t last = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

// Converts ascending ranks to ranges that ascend and are not adjacent.
std::vector<RankRange> ToRanges(std::span<const int32_t> ranks);

// Ranks of a run that an answer covers.
struct RunRanks {
  // Ranks that have tensors, and ranks that streamed but whose tensors the
  // capture policy excluded entirely; ascending. Does not include a rank that
  // streamed and recorded nothing although the policy requests everything from
  // it.
  std::vector<int32_t> held;
  // The other ranks of the world from which the capture policy requests
  // something. Stored as ranges, because a run may state a world of a million
  // ranks; the ranges ascend and are not adjacent. Empty if the world size is
  // not known.
  std::vector<RankRange> lacking;
};

// Finds the ranks of a run that have data. If `selected` is not empty,
// considers only its ranks. The time is proportional to the number of ranks
// that have tensors, have reported coverage, or are named in the policy or in
// `selected`, independent of the world size.
//
// Errors: those of the reader.
absl::StatusOr<RunRanks> FindRunRanks(RunReader& run,
                                      std::span<const int32_t> selected);

// As above, for a run whose `info` the caller already has.
absl::StatusOr<RunRanks> FindRunRanks(RunReader& run, const RunInfo& info,
                                      std::span<const int32_t> selected);

}  // namespace msitd::storage
