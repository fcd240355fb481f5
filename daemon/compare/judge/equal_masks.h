// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Tensors with more closed positions than this are not considered masks. Up to
// this number, a sum of equal floats is exact in double, so a summary can prove
// that all closed positions have the same value.
inline constexpr uint64_t kClosedPlacesMax = uint64_t{1} << 28;

// Returns whether both sides of a pair look like masks that can be equal
// although their values differ, such as a mask with -65504 and one with -Inf.
//
// By its summary, each side must be an input or output of an op. Each of its
// elements must be 0 or one closing value (IsClosing), or it must be a bool. At
// least one side must be additive, that is, not a bool. Two additive masks must
// have different closing values. The number of open positions must be equal.
//
// If this returns true, the caller must read the bytes and use AreEqualMasks,
// even if summaries prove that the pair differs.
bool MayBeEqualMasks(const TensorPair& pair);

// Returns whether MayBeEqualMasks is true and both sides are open and closed at
// the same positions. `mismatch_count` is the number of elements that differ. A
// bool may open positions with true or with false, as long as it does so
// everywhere.
bool AreEqualMasks(const TensorPair& pair, uint64_t mismatch_count);

}  // namespace msitd::compare
