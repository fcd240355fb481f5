// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/compare/match/match_rules.h"
#include "daemon/compare/match/pairing.h"

namespace msitd::compare {

// Finds the golden call for each call of the target run.
//
// Calls of an op are numbered within a rank and token, across all modules that
// call it. If one run calls the op once more, for example because a kernel
// needs a contiguous tensor, the numbers of all later calls are shifted, and
// equal numbers no longer mean the same place in the code. The numbers are
// therefore used only for ops that both runs call equally often. Calls of other
// ops are paired by where they happened:
//
// 1. The tensors of ops with equal numbers of calls are landmarks. If some of
//    them are in another order in the target run, the longest sequence that
//    both runs have in common is used.
// 2. The landmarks divide both runs into stretches. Calls of an op belong
//    together only if they begin in the same stretch.
// 3. If both runs have equally many calls of an op in a stretch, these are
//    paired in execution order. Otherwise the longest alignment of calls with
//    equal shapes and kinds of types is used, and among several of these the
//    one with the most equal hashes. A call that is not part of it has no
//    counterpart.
//
// An op keeps its numbers if they have gaps, because then calls were not
// recorded, and the numbers of the others are still right. Weights and state
// belong to a module, not to a call, and keep their numbers, too.
//
// Takes O(n log n) for n tensors. Immutable, hence thread-safe.
class CallAlignment {
 public:
  // Stretches whose calls of an op have more possible pairs than this are
  // aligned from both ends, as far as calls are alike, and then in order.
  static constexpr size_t kPairsMax = size_t{1} << 16;

  // Considers the tensors without a partner. All calls keep their numbers
  // unless `sides.aligns_calls`. Borrows the target tensors of `sides`.
  CallAlignment(const MatchRules& rules, const PairingSides& sides,
                const Partners& partners);

  // Returns the golden call that belongs to the call of a target tensor, which
  // may not exist; nothing if the call has no counterpart.
  std::optional<int32_t> GoldenCallOf(size_t target) const;

 private:
  std::span<const LogicalTensor> target_;
  // For each target tensor; empty if all calls keep their numbers.
  std::vector<std::optional<int32_t>> golden_calls_;
};

}  // namespace msitd::compare
