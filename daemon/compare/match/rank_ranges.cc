// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/rank_ranges.h"

#include <algorithm>
#include <utility>

namespace msitd::compare {

using storage::RankRange;

RankRanges::RankRanges(std::vector<RankRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](RankRange a, RankRange b) {
    return std::pair(a.first, a.last) < std::pair(b.first, b.last);
  });
  for (const RankRange& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

int64_t RankRanges::count() const {
  int64_t out = 0;
  for (const RankRange& range : ranges_) {
    out += int64_t{range.last} - range.first + 1;
  }
  return out;
}

std::vector<RankRange>::const_iterator RankRanges::From(int32_t rank) const {
  return std::lower_bound(
      ranges_.begin(), ranges_.end(), rank,
      [](const RankRange& range, int32_t at) { return range.last < at; });
}

bool RankRanges::HasAll(RankRange ranks) const {
  const auto found = From(ranks.first);
  return found != ranges_.end() && found->first <= ranks.first &&
         ranks.last <= found->last;
}

bool RankRanges::HasAnyOf(RankRange ranks) const {
  const auto found = From(ranks.first);
  return found != ranges_.end() && found->first <= ranks.last;
}

void RankRanges::AddPartOf(RankRange ranks, std::vector<RankRange>& out) const {
  for (auto range = From(ranks.first);
       range != ranges_.end() && range->first <= ranks.last; ++range) {
    out.push_back({std::max(range->first, ranks.first),
                   std::min(range->last, ranks.last)});
  }
}

}  // namespace msitd::compare
