// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Maximum number of ops in ReceivedTypes. Others count as if they had received
// nothing that differs.
inline constexpr size_t kReceivedOpsMax = 65536;

// By op: the coarsest type that the tensors went through that its code has
// received and that differ.
using ReceivedTypes = std::map<std::string, DType, std::less<>>;

// Returns the basis of each pair of a group. Returns an empty vector if all
// pairs can be judged by their own types.
//
// A tensor that was computed from rounded values has their rounding errors,
// regardless of its own type. In a bfloat16 model, a correct float32 output
// would fail with the bounds of float32. Looser bounds for all float32 tensors
// would hide faults. This function therefore passes types on from tensor to
// tensor: the basis of a tensor is the coarsest type, in either run, of all
// tensors that it was computed from. CallTree shows only which tensors it may
// have been computed from, so some tensors are judged more loosely than
// necessary. The rules:
//
// - A tensor that is equal bit for bit on both sides was rounded in the same
//   way in both runs and passes no type on. A tensor that only one run has
//   passes none on, either.
// - An op whose floating-point inputs are all float16 or bfloat16 computes in
//   the coarsest of these types, even if its inputs are equal.
// - A type that only one run has is not passed on if it is an exception in that
//   run (kExceptionalShare). It is then the difference that the comparison
//   should find.
// - Tensors that are computed from earlier tokens, such as from the last
//   logits, have the coarsest type of the tensors that differ there. If a
//   tensor of code differs although everything that the code has received at
//   its own token is equal, the code may have read it from its state, such as a
//   cache. It has the coarsest type of the tensors that differ and that the
//   code of the same op has received at earlier tokens, if there are any.
// - A gradient is computed from the gradients that its op received, and from
//   the tensors that the op received in the forward pass.
// - After an earlier training step, a parameter and the outputs of its op have
//   the type of the parameter's gradient, because the step has changed the
//   parameter.
//
// `is_whole`: the group has all tensors of both runs at its rank and token.
// `past_type` is empty for the first token. For others, it returns the coarsest
// type of the tensors that differ at earlier tokens. It is called at most once.
// `received` is that of the rank at earlier tokens; the types of this group are
// added to it.
using PastType = std::function<DType()>;
std::vector<PairBasis> FindBases(const std::vector<TensorPair>& pairs,
                                 bool is_whole, const PastType& past_type,
                                 ReceivedTypes& received);

// Returns a reason for the row of a pair, such as
// `judged as bfloat16: computed from layers.0.q_proj@output/0`. Empty if the
// pair is judged by its own types.
std::string BasisText(const std::vector<TensorPair>& pairs,
                      const PairBasis& basis);

}  // namespace msitd::compare
