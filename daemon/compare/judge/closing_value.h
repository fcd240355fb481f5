// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/match/tensor_group.h"
#include "daemon/compute/element_metrics.h"

// Values that close a place of a mask that is added to scores.
namespace msitd::compare {

// True for -Inf, the least value of a float type, and what is rounded to
// bfloat16 or better of -65504 and of -1e4, -1e5 and so on.
bool IsClosing(double value);

// Returns what closes places of either side, if both look like scores to which
// a mask was added, by their summaries: float inputs or outputs of ops of which
// the least element is a closing value, give or take a score, or twice that.
// Whether they are is for OpenPairAccumulator to find out, so their bytes have
// to be read, whatever else summaries prove.
std::optional<compute::ClosingValues> ClosingValuesOf(const TensorPair& pair);

}  // namespace msitd::compare
