// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/layout.h"

namespace msitd::compare {

// How many ranks each run has.
struct RankCounts {
  RankCount golden;
  RankCount target;
};

// For two tensors of different shapes, of which one may be a piece of the
// other: the flag of msitctl with a layout that puts the pieces together,
// `--target-layout 'op@output/0=concat(-1)/2'`. Empty if one side is not longer
// along one dimension by a factor that the ranks of the other can be grouped
// by, or if the piece is made of pieces already.
std::string LayoutHint(const LogicalTensor& golden, const LogicalTensor& target,
                       const RankCounts& ranks);

// For two tensors of equal shapes, of which one is made of copies that differ:
// the same with `=sum`, if the elements of all copies add up to those of the
// other tensor as far as their summaries tell, and those of the first do not.
// Who takes it no longer checks that the copies are equal. So there is none for
// weights and states, such as accumulated gradients and those of optimizers,
// which ranks must agree on.
std::string SumHint(const LogicalTensor& golden, const LogicalTensor& target);

}  // namespace msitd::compare
