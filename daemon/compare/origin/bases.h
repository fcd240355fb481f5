// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// What a pair was computed from.
struct PairBasis {
  Basis basis = {};
  // The pair whose own type is `basis.computed_in`; -1 if there is none, or if
  // it is of an earlier token.
  int32_t from = -1;

  friend bool operator==(const PairBasis&, const PairBasis&) = default;
};

// Returns the basis of each pair of a group, or nothing if none differs from
// the types of its pair: then all values have the same type.
//
// A rounding stays in all that is computed from a value. So a tensor carries
// the coarsest type, of either run, of all that CallTree says it is made of,
// back to tensors that are equal bit for bit on both sides: nothing that a
// rounding did comes through these, nor through what one run has alone. An op
// of which all floating inputs are float16 or bfloat16 computes in the coarsest
// of them, equal or not.
//
// A type that only one run has is not passed on if it is an exception there
// (kExceptionalShare): then it is the difference that is looked for.
//
// `is_whole`: all that the runs have of this rank and token is there.
//
// If there are tokens before this one, `past_type` returns the coarsest type of
// what differs there; it is called once, if at all. What comes from these
// tokens, such as the last logits, carries it. Parameters, and what their ops
// make, carry what their gradients do, as the steps before have changed them.
using PastType = std::function<DType()>;  // Empty for a first token.
std::vector<PairBasis> FindBases(const std::vector<TensorPair>& pairs,
                                 bool is_whole, const PastType& past_type = {});

// Returns what is to be said of the pair at `position`, such as `judged as
// bfloat16: computed from layers.0.q_proj@output/0`; empty if there is nothing.
std::string BasisText(const std::vector<TensorPair>& pairs,
                      const PairBasis& basis);

}  // namespace msitd::compare
