// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Additive masks close a place by a value of this or less, -Inf included:
// -10000, -65504, -1e9 and the least value of a type are in use.
inline constexpr double kClosedMax = -1e4;

// True if both sides of a pair look like masks by their summaries, of which at
// least one is additive: each element is 0 or one closing value, or it is a
// bool. They have as many open places, and their closing values differ. Their
// bytes have to be read then, whatever else summaries prove.
bool MayBeEqualMasks(const TensorPair& pair);

// True if such a pair has its open and its closed places where the other side
// has them. `mismatch_count` is that of all elements. What a bool means does
// not matter, as long as it means the same everywhere.
bool AreEqualMasks(const TensorPair& pair, uint64_t mismatch_count);

}  // namespace msitd::compare
