// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "client/foreign/match/facts.h"

namespace msitd::match {

// The numbers of the tensors of `op` that are on side `io`, in order.
std::vector<size_t> ArgumentsOf(const OpFacts& op, Io io);

// The same in the order of their texts, where 10 is before 2: what msit does.
std::vector<size_t> ArgumentsByText(const OpFacts& op, Io io);

// Positions in two lists of tensors that belong together.
using Alignment = std::vector<std::pair<size_t, size_t>>;

// Puts two lists of tensors side by side: one by one if they are as long, else
// by AlignBySize. Both sides are in ascending order.
Alignment Align(const OpFacts& golden, const std::vector<size_t>& golden_list,
                const OpFacts& target, const std::vector<size_t>& target_list);

// As many pairs as possible of equal element count, in order. Above
// kAlignCellsMax there is none.
Alignment AlignBySize(const OpFacts& golden,
                      const std::vector<size_t>& golden_list,
                      const OpFacts& target,
                      const std::vector<size_t>& target_list);
// What of a tensor tells whether it may be another one: its elements in one
// rank, and, if ranks may have pieces of it, in all of them.
struct TensorSizes {
  uint64_t one = 0;
  uint64_t all = 0;
};
// The same for lists of sizes, of which one of each has to be equal.
Alignment AlignSizes(const std::vector<TensorSizes>& golden,
                     const std::vector<TensorSizes>& target);

// One by one, up to the end of the shorter list.
Alignment Zip(size_t golden_count, size_t target_count);

}  // namespace msitd::match
