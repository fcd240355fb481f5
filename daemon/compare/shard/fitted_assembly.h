// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/compare/shard/assembly.h"

// Shards of which their sizes tell how they lie (Layout::FIT): beside what they
// are compared with.
namespace msitd::compare {

// A tensor that waits for what it is compared with; meanwhile it is like its
// first shard. `shards` are at least one, ascending by rank; ranks in `missing`
// have none.
LogicalTensor AwaitFit(int32_t group_number,
                       std::vector<storage::RankRange> missing,
                       std::vector<storage::TensorInfo> shards);

// Puts together what waits of two tensors that are compared, so that both have
// as many elements, in the same order: as copies, or as pieces along the first
// dimension that will do; if either side will do, as few pieces as possible. If
// nothing will do, it is the first shard, or has a problem if ranks have none.
void Fit(LogicalTensor& golden, LogicalTensor& target);

// Puts together what waits and is compared with nothing: its first shard.
void FitAlone(LogicalTensor& tensor);

}  // namespace msitd::compare
