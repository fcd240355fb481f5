// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/origin/call_tree.h"

namespace msitd::compare {

// Returns a note that states that the runs make two calls in a different order,
// if one of them is the call that receives the tensor of `pair`, and the same
// code makes both:
//
//   other order of calls: golden calls a.mul before a.add, the target after it
//
// Empty for tensors that are not inputs, and if some call of either op is made
// by only one run, because calls are paired by their numbers. If there are
// several such calls, the nearest one is named. Takes time in proportion to the
// number of pairs.
std::string CallOrderNote(const CallTree& tree,
                          const std::vector<TensorPair>& pairs, size_t pair);

}  // namespace msitd::compare
