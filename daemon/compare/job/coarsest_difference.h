// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/dtype.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Records of a rank of either run that are looked at.
inline constexpr int kTypedRecordsMax = 4096;

// A rank of a run.
struct RunRank {
  storage::RunReader* run = nullptr;
  int32_t rank = 0;
};

// Returns the coarsest type of the outputs before `token` that have one name in
// both runs and differ, as far as they are among the first records of the rank:
// kUnspecified if there are none, and if they cannot be read. Types that one
// run has as an exception (kExceptionalShare) do not count.
DType CoarsestDifference(const RunRank& golden, const RunRank& target,
                         int64_t token, storage::StopCheck stop);

}  // namespace msitd::compare
