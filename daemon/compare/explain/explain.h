// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/explain/explanation.h"

namespace msitd::compare::explain {

// Maximum number of explanations of an op.
inline constexpr size_t kExplanationsMax = 2;

// An explanation is given if the residual, which is the error that remains with
// the mistake, is at most this many times the noise, and if the error without
// the mistake is at least this many times the residual.
inline constexpr double kResidualNoisesMax = 4;
inline constexpr double kImprovementMin = 8;

// With more noise, different mistakes explain the same tensors, so none is
// given.
inline constexpr double kExplainedNoiseMax = 0.05;

// Returns the simple mistakes that explain why the target differs: if the
// golden run had made the mistake, the tensors would be equal within the noise.
//
// A search for faults usually ends with a person who examines the numbers of
// two tensors and tries the usual mistakes: is it a factor, the sign, the order
// of the heads? Each of these hypotheses is a transformation of the golden
// tensor with few free parameters, which have a closed form. Each is tested on
// all elements, so a wrong one is as good as never confirmed by chance: a
// tensor of 1,000 elements does not agree with a transformation of 2 parameters
// to 4 digits. For the same reason, hypotheses with many parameters are only
// tested on tensors with several times as many elements.
//
// If several hypotheses hold, the one with the fewest parameters is returned,
// and a second one only if it is as simple. If only some indices of a dimension
// differ, the hypotheses are tested on these. If none holds there, the
// explanation only states which indices differ.
//
// Pure. Takes time and memory in proportion to the number of elements. Values
// may be anything; tensors that are constant, that have fewer than
// kExaminedElementsMin elements or whose shapes contradict their values have no
// explanation.
std::vector<Explanation> Explain(const ExaminedOp& op);

}  // namespace msitd::compare::explain
