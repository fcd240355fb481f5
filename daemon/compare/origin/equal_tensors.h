// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Returns a note that states which earlier tensor of its own run a tensor is
// equal to, if that is another tensor in each run, or only in one of them. The
// pair `pair` must have both tensors.
//
//   equal to a.gate output/0 in golden, to a.up output/0 in the target
//   equal to embed weight/weight only in golden
//
// If neither run has such a tensor, the note states which result or weight of
// the golden run the target tensor is equal to, or which input, of a result
// only which earlier one. An example is the weight of another module that was
// loaded by mistake:
//
//   the target has b.up weight/weight of golden
//
// Code often passes on a tensor without a change: the result of one part is the
// input of the next. If code passes on the wrong tensor, or passes on a tensor
// that it should have changed, no transformation of the golden tensor gives the
// target tensor, but the hashes of the other tensors show what was passed on.
// Each run is searched for its own tensors first, so that runs of other kernels
// and of other precisions can be compared.
//
// Empty if the tensors have equal hashes or none, if both are equal to the same
// tensor, and for tensors that are often equal by chance: constants, and those
// with fewer than 8 elements. Takes time in proportion to the number of pairs.
std::string EqualTensorsNote(const std::vector<TensorPair>& pairs, size_t pair);

}  // namespace msitd::compare
