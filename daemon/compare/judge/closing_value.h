// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/match/tensor_group.h"
#include "daemon/compute/element_metrics.h"

// Closing values: the values of an additive attention mask at closed positions,
// such as -Inf or -1e9.
namespace msitd::compare {

// Returns whether a value is a closing value. Closing values are -Inf, the
// lowest value of each float type, -65504, and -1e4, -1e5 and so on, each also
// as rounded to bfloat16 or a wider type.
bool IsClosing(double value);

// Returns the closing values of both sides if both look like scores to which a
// mask was added; otherwise nullopt. A side looks like such scores if it is a
// float input or output of an op and its minimum is -Inf, or is a closing value
// or twice a closing value up to a small error. The closing values of both
// sides must be equal or both be common ones.
//
// A summary cannot prove that a mask was added. The caller must therefore read
// the bytes and use OpenPairAccumulator, even if summaries prove that the pair
// differs.
std::optional<compute::ClosingValues> ClosingValuesOf(const TensorPair& pair);

}  // namespace msitd::compare
