// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/origin/rank_events.h"

namespace msitd::origin {

// Maximum number of steps of a chain. Steps in the middle are left out.
inline constexpr size_t kChainStepsMax = 32;

// The way from an origin to the last result that follows from it.
struct Chain {
  // Events, ascending, each of another call. The first one is the origin; its
  // call can follow again as the one that returned the last result.
  std::vector<int32_t> steps;
  // Steps that are left out, and the number of steps before them.
  int64_t omitted_count = 0;
  size_t omitted_after = 0;
};

// Follows the symptom from the last result of the outermost call back to the
// event `origin`. A step goes from a result to a part of its call, and from an
// input to a tensor with the same bytes, or to the last symptom in the code
// around the call. This shows one way; there may be others.
//
// Takes time in proportion to the number of events for each step, and usually
// in total.
Chain FindChain(const RankEvents& events, int32_t origin);

}  // namespace msitd::origin
