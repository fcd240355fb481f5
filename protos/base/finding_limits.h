// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Maximum lengths of the lists in a comparison. A daemon applies them to its
// own comparisons, and a client to one that it merges from several daemons.
namespace msitd {

// Concurrent divergences, in addition to the first one.
inline constexpr int kConcurrentMax = 8;

// Causes.
inline constexpr int kMakersMax = 5;

// Ranks that a cause lists in addition to that of its row.
inline constexpr int kAlikeRanksMax = 64;

// Silent ranks.
inline constexpr size_t kSilentRanksMax = 16;

// Required tolerances.
inline constexpr size_t kRequiredTolerancesMax = 256;

}  // namespace msitd
