// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "protos/base/rank_set.h"

// Conversions between sets of ranks and repeated messages with the fields
// `first` and `last`, such as msitd.v1.RankRange. Templates, because this
// folder does not depend on protobuf.
namespace msitd {

// Maximum number of ranges of ranks in a field of an answer. Further ranges are
// omitted.
inline constexpr int kRankRangesMax = 4096;

// Ignores ranges with negative ranks.
template <typename Ranges>
RankSet RankSetOf(const Ranges& ranges) {
  std::vector<RankRange> out;
  out.reserve(static_cast<size_t>(ranges.size()));
  for (const auto& range : ranges) {
    if (range.first() >= 0) out.push_back({range.first(), range.last()});
  }
  return RankSet(std::move(out));
}

// As above, for a repeated field of single ranks.
template <typename Ranks>
RankSet RankSetOfEach(const Ranks& ranks) {
  return RankSet::Of({ranks.data(), static_cast<size_t>(ranks.size())});
}

// Appends the ranges of the set to `out` until that has `ranges_max`.
template <typename Ranges>
void AppendRanges(const RankSet& ranks, Ranges& out,
                  int ranges_max = std::numeric_limits<int>::max()) {
  for (const RankRange& range : ranks.ranges()) {
    if (out.size() >= ranges_max) return;
    auto& message = *out.Add();
    message.set_first(range.first);
    message.set_last(range.last);
  }
}

}  // namespace msitd
