// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/compare/shard/assembly.h"

// Derives the layout of shards from their sizes and from the tensor that they
// are compared with (Layout::FIT).
//
// Some runs do not record how their tensors are sharded, and rules for each op
// are tedious to write. The sizes often suffice: a shard as large as the other
// tensor is a copy, and a smaller one is a piece. The layout can therefore only
// be chosen for a pair, after the tensors were matched. This costs certainty:
// sizes cannot distinguish terms of a sum from copies, and if pieces fit along
// several dimensions, the first one is a guess.
namespace msitd::compare {

// Returns a tensor whose layout is not chosen yet. Until then, it has the
// fields of its first shard. `shards` are at least one, ascending by rank;
// `missing` are the ranks without a shard.
LogicalTensor AwaitFit(int32_t group_number, std::vector<RankRange> missing,
                       std::vector<storage::TensorInfo> shards);

// Chooses the layouts of two tensors that are compared, for those that await
// one, so that both have the same number of elements in the same order. Prefers
// copies on both sides, then pieces on one side, then pieces on both sides.
// Pieces are joined along the first dimension that matches. If nothing matches,
// uses the first shard, or reports a problem if ranks lack a shard.
void Fit(LogicalTensor& golden, LogicalTensor& target);

// Completes a tensor that awaits a layout but is not compared with another
// tensor. It becomes its first shard.
void FitAlone(LogicalTensor& tensor);

}  // namespace msitd::compare
