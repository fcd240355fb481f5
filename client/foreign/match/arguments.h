// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "client/foreign/match/facts.h"

namespace msitd::match {

// Returns the indexes of the tensors of `op` on side `io`, in order.
std::vector<size_t> ArgumentsOf(const OpFacts& op, Io io);

// The same, ordered by text as msit does, so that 10 is before 2.
std::vector<size_t> ArgumentsByText(const OpFacts& op, Io io);

// Positions in two lists of tensors that are paired.
using Alignment = std::vector<std::pair<size_t, size_t>>;

// Pairs two lists of tensors: one by one if they have the same length, and
// otherwise with AlignBySize. Both lists are in ascending order.
//
// A file of GE numbers all arguments of its op. If numbers are missing because
// those arguments could not be read, the others keep their positions: see
// AlignByNumber.
Alignment Align(const OpFacts& golden, const std::vector<size_t>& golden_list,
                const OpFacts& target, const std::vector<size_t>& target_list);

// Pairs as many tensors of equal element count as possible, in order. Returns
// no pairs above kAlignCellsMax.
Alignment AlignBySize(const OpFacts& golden,
                      const std::vector<size_t>& golden_list,
                      const OpFacts& target,
                      const std::vector<size_t>& target_list);
// The sizes that determine whether two tensors can be the same: the number of
// elements in one rank and, if ranks may have pieces of the tensor, in all
// ranks.
struct TensorSizes {
  uint64_t one = 0;
  uint64_t all = 0;
};
// The same for lists of sizes. Two tensors match if one of their sizes is
// equal.
Alignment AlignSizes(const std::vector<TensorSizes>& golden,
                     const std::vector<TensorSizes>& target);

// Pairs the tensors of GE in `target` by their numbers, if some numbers are
// missing and both sides have the same number of arguments. The golden tensors
// are numbered by their positions, because FX omits arguments that are not
// tensors. Returns nothing if no number is missing, or if the element counts of
// a pair differ, which means that the numbers do not correspond.
std::optional<Alignment> AlignByNumber(const OpFacts& golden,
                                       const std::vector<size_t>& golden_list,
                                       const OpFacts& target,
                                       const std::vector<size_t>& target_list);

// Pairs one by one, up to the end of the shorter list.
Alignment Zip(size_t golden_count, size_t target_count);

}  // namespace msitd::match
