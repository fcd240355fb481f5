// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Ranks in a row. `last` is one of them.
struct RankRange {
  int32_t first = 0;
  int32_t last = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

// Returns ascending ranks as ranges, which ascend and do not touch.
std::vector<RankRange> ToRanges(std::span<const int32_t> ranks);

// Which ranks of a run an answer is made of.
struct RunRanks {
  // Those of which there are tensors, or of which the capture policy left all
  // out; ascending. A rank that streamed and recorded nothing, though the
  // policy asks everything of it, is none of them.
  std::vector<int32_t> held;
  // The others of the world size that the capture policy asks something of;
  // ranges that ascend and do not touch, since a run may claim a world of a
  // million. None of a run whose world size is not known.
  std::vector<RankRange> lacking;
};

// Looks which ranks of a run have come. Only those of `selected` count, unless
// it is empty. Takes time in proportion to the ranks that are there, were told
// of or are named, whatever the world size.
//
// Errors: those of the reader.
absl::StatusOr<RunRanks> FindRunRanks(RunReader& run,
                                      std::span<const int32_t> selected);

// The same of a run that was looked at before: `info` says what of it.
absl::StatusOr<RunRanks> FindRunRanks(RunReader& run, const RunInfo& info,
                                      std::span<const int32_t> selected);

}  // namespace msitd::storage
