// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Which run converts an argument to another type.
enum class Converts : unsigned char { kNoneOrBoth, kOnlyGolden, kOnlyTarget };

// Returns, for each pair of a group, which run alone converts, if the pair is a
// gradient of a conversion such as `Tensor.float` that only one run makes. An
// empty vector means that there are none.
//
// A conversion to the type that its argument has returns the argument itself.
// Its gradients are then those of the argument, to which all uses of the
// argument contribute, and cannot be compared with those of the other run. That
// is usual if a run in bfloat16 is compared with one in float32.
//
// A call counts as such a conversion if in one run, its result has the type and
// the bytes of an argument, and in the other run, the types of all arguments
// differ from that of the result. Takes time in proportion to the number of
// pairs.
std::vector<Converts> LoneConversionsOf(const std::vector<TensorPair>& pairs);

}  // namespace msitd::compare
