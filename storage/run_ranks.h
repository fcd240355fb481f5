// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/rank_set.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Ranks of a run that an answer covers.
struct RunRanks {
  // Ranks that have tensors, and ranks that streamed but whose tensors the
  // capture policy excluded entirely; ascending. Does not include a rank that
  // streamed and recorded nothing although the policy requests everything from
  // it.
  std::vector<int32_t> held;
  // The other ranks of the world from which the capture policy requests
  // something. Empty if the world size is not known.
  RankSet lacking;
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
