// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/compare/match/tensor_group.h"
#include "protos/base/dtype.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Maximum number of records to read from a rank of either run.
inline constexpr int kTypedRecordsMax = 4096;

// A rank of a run.
struct RunRank {
  storage::RunReader* run = nullptr;
  int32_t rank = 0;
};

// Returns the coarsest type of the outputs before `token` that have the same
// name in both runs and differ. Returns kUnspecified if there are none or if
// they cannot be read. Only the first kTypedRecordsMax outputs of each run are
// considered. Types that one run has only as an exception (kExceptionalShare)
// are ignored.
DType CoarsestDifference(const RunRank& golden, const RunRank& target,
                         int64_t token, storage::StopCheck stop);

// Returns the same for the outputs of a group.
DType CoarsestDifference(const std::vector<TensorPair>& pairs);

}  // namespace msitd::compare
