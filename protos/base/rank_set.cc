// SPDX-License-Identifier: Apache-2.0
#include "protos/base/rank_set.h"

#include <algorithm>
#include <utility>

namespace msitd {

RankSet::RankSet(std::vector<RankRange> ranges) {
  std::erase_if(ranges,
                [](RankRange range) { return range.last < range.first; });
  std::sort(ranges.begin(), ranges.end(), [](RankRange a, RankRange b) {
    return std::pair(a.first, a.last) < std::pair(b.first, b.last);
  });
  for (const RankRange& range : ranges) {
    if (!ranges_.empty() && range.first <= int64_t{ranges_.back().last} + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

RankSet RankSet::Of(std::span<const int32_t> ranks) {
  std::vector<RankRange> ranges;
  for (const int32_t rank : ranks) {
    if (!ranges.empty() && int64_t{ranges.back().last} + 1 == rank) {
      ranges.back().last = rank;
    } else {
      ranges.push_back({rank, rank});
    }
  }
  return RankSet(std::move(ranges));
}

int64_t RankSet::count() const {
  int64_t out = 0;
  for (const RankRange& range : ranges_) {
    out += int64_t{range.last} - range.first + 1;
  }
  return out;
}

std::vector<RankRange>::const_iterator RankSet::From(int32_t rank) const {
  return std::lower_bound(
      ranges_.begin(), ranges_.end(), rank,
      [](const RankRange& range, int32_t at) { return range.last < at; });
}

bool RankSet::HasAll(RankRange ranks) const {
  const auto found = From(ranks.first);
  return found != ranges_.end() && found->first <= ranks.first &&
         ranks.last <= found->last;
}

bool RankSet::HasAnyOf(RankRange ranks) const {
  const auto found = From(ranks.first);
  return found != ranges_.end() && found->first <= ranks.last;
}

RankSet RankSet::Union(const RankSet& other) const {
  std::vector<RankRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return RankSet(std::move(both));
}

RankSet RankSet::Minus(const RankSet& other) const {
  RankSet out;
  for (const RankRange& range : ranges_) {
    int64_t first = range.first;
    for (auto taken = other.From(range.first);
         taken != other.ranges_.end() && taken->first <= range.last; ++taken) {
      if (taken->first > first) {
        out.ranges_.push_back({static_cast<int32_t>(first), taken->first - 1});
      }
      first = int64_t{taken->last} + 1;
    }
    if (first <= range.last) {
      out.ranges_.push_back({static_cast<int32_t>(first), range.last});
    }
  }
  return out;
}

RankSet RankSet::Intersection(const RankSet& other) const {
  RankSet out;
  for (const RankRange& range : ranges_) {
    for (auto shared = other.From(range.first);
         shared != other.ranges_.end() && shared->first <= range.last;
         ++shared) {
      out.ranges_.push_back({std::max(range.first, shared->first),
                             std::min(range.last, shared->last)});
    }
  }
  return out;
}

std::vector<int32_t> RankSet::Ranks(size_t limit) const {
  std::vector<int32_t> out;
  for (const RankRange& range : ranges_) {
    for (int64_t rank = range.first; rank <= range.last; ++rank) {
      if (out.size() >= limit) return out;
      out.push_back(static_cast<int32_t>(rank));
    }
  }
  return out;
}

std::string RankSet::Text(size_t ranges_max) const {
  std::string out;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (i == ranges_max) return out + ",...";
    if (i > 0) out += ',';
    out += std::to_string(ranges_[i].first);
    if (ranges_[i].last != ranges_[i].first) {
      out += '-';
      out += std::to_string(ranges_[i].last);
    }
  }
  return out;
}

}  // namespace msitd
