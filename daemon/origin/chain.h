// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/origin/rank_events.h"

namespace msitd::origin {

// Maximum number of steps of a chain. Steps in the middle are left out.
inline constexpr size_t kChainStepsMax = 32;

// Maximum distance, in events, of a tensor with the same bytes, and maximum
// number of events that are visited in total. They bound the time of recordings
// in which every tensor is bad.
inline constexpr int32_t kSameBytesDistanceMax = 4096;
inline constexpr int64_t kChainVisitsMax = int64_t{1} << 23;

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
// If the search visits more than kChainVisitsMax events, the last step that it
// found directly follows the origin.
Chain FindChain(const RankEvents& events, int32_t origin);

}  // namespace msitd::origin
