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
// 1. The tensors of ops that both runs call once, usually modules, are
//    landmarks. If some of them are in another order in the target run, the
//    longest sequence that both runs have in common is used.
// 2. Ops that both runs call equally often, several times, add a landmark for
//    each call if all of their calls are at the same places among those of
//    step 1. Equal counts prove little: each run can have a call that the
//    other lacks.
// 3. The landmarks divide both runs into stretches. Calls of an op belong
//    together if they begin in the same stretch. If both runs have equally many
//    of them there, they are paired in execution order. Otherwise,
//    StretchAligner finds those that the other run lacks.
// 4. Remaining calls with equal numbers are paired, because the runs may have
//    made them in another order. Only the others have no counterpart: a pair
//    that is compared and fails is better than a wrong call that is not
//    compared.
//
// An op keeps its numbers if they have gaps, because then calls were not
// recorded, and the numbers of the others are still right. Weights and state
// belong to a module, not to a call, and keep their numbers, too.
//
// Takes O(n log n) for n tensors, plus at most
// StretchAligner::kPairsMax for each stretch of an op. Immutable, hence
// thread-safe.
class CallAlignment {
 public:
  // Considers the tensors without a partner. `sides.calls` selects the ops
  // whose calls may get other numbers. Borrows the target tensors of `sides`.
  CallAlignment(const MatchRules& rules, const PairingSides& sides,
                const Partners& partners);

  // Returns the number of the golden call that belongs to the call of a target
  // tensor. The golden run need not have this call. Returns nothing if the call
  // has no counterpart.
  std::optional<int32_t> GoldenCallOf(size_t target) const;

 private:
  std::span<const LogicalTensor> target_;
  // One entry for each target tensor. Empty if all calls keep their numbers.
  std::vector<std::optional<int32_t>> golden_calls_;
};

}  // namespace msitd::compare
