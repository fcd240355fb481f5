// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/layout.h"

namespace msitd::compare {

// The number of ranks of each run.
struct RankCounts {
  RankCount golden;
  RankCount target;
};

// Returns the flag of msitctl with a layout that joins the pieces of a tensor,
// such as `--target-layout 'op@output/0=concat(-1)/2'`. It is meant for two
// tensors of different shapes, one of which may be a piece of the other.
// Returns an empty string if the piece is itself assembled from several shards,
// or is seen through a view.
// It is also empty unless one tensor is longer than the other along exactly one
// dimension, by a factor that divides the number of ranks of the run with the
// piece.
std::string LayoutHint(const LogicalTensor& golden, const LogicalTensor& target,
                       const RankCounts& ranks);

// Returns such a flag with the layout `sum`, for two tensors of equal shapes,
// one of which consists of copies that differ. According to their summaries,
// the elements of all copies must add up to those of the other tensor, and
// those of the first copy must not. Otherwise, or if the copies are seen
// through a view, returns an empty string.
//
// With this layout, copies are no longer required to be equal. There is
// therefore no hint for weights and states, such as accumulated gradients and
// states of optimizers, which must be equal on all ranks.
std::string SumHint(const LogicalTensor& golden, const LogicalTensor& target);

}  // namespace msitd::compare
