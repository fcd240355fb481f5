// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/origin/module_facts.h"
#include "daemon/origin/rank_events.h"

namespace msitd::origin {

// The rules that ignore tensors look at one call at a time, and -Inf that
// overflowed in code that was not recorded looks like a mask there. An ignored
// tensor is explained if the record shows its source: an op that writes masks,
// the logarithm of a zero, an input of the model, or a Python number that is
// passed to a function as a constant. It is related to its source by equal
// bytes, or by calls that received it and passed it on. A bad result of a call
// with an ignored input proves that the call made it only if that input is
// explained.

// Returns whether a call is that of a model itself, which nothing recorded
// contains.
bool IsModelCall(const RankEvents& events, const ModuleTree& tree,
                 int32_t call);

// Returns, for each event before `end`, true unless it is ignored and not
// explained. Takes time in proportion to the number of events.
std::vector<bool> FindExplained(const RankEvents& events,
                                const ModuleTree& tree, int32_t end);

}  // namespace msitd::origin
