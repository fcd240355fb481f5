// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// More closed places are not taken for a mask: up to here, sums of equal floats
// are exact in double, so that a summary shows that they are equal.
inline constexpr uint64_t kClosedPlacesMax = uint64_t{1} << 28;

// True if both sides of a pair look like masks by their summaries, of which at
// least one is additive: each element is 0 or one closing value, or it is a
// bool. Closing values are those of IsClosing. Masks are inputs and outputs of
// ops. They have as many open places, and their
// closing values differ. Their bytes have to be read then, whatever else
// summaries prove.
bool MayBeEqualMasks(const TensorPair& pair);

// True if such a pair has its open and its closed places where the other side
// has them. `mismatch_count` is that of all elements. What a bool means does
// not matter, as long as it means the same everywhere.
bool AreEqualMasks(const TensorPair& pair, uint64_t mismatch_count);

}  // namespace msitd::compare
