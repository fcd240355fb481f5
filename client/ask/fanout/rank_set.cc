// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace msitd::ask {

RankSet::RankSet(const Ranges& ranges) {
  std::vector<Range> all;
  for (const v1::RankRange& range : ranges) {
    if (range.first() < 0 || range.last() < range.first()) continue;
    all.push_back({range.first(), range.last()});
  }
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const Range& range : all) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

int64_t RankSet::size() const {
  int64_t count = 0;
  for (const Range& range : ranges_) count += range.last - range.first + 1;
  return count;
}

RankSet RankSet::Union(const RankSet& other) const {
  Ranges both;
  Write(both);
  other.Write(both);
  return RankSet(both);
}

RankSet RankSet::Minus(const RankSet& other) const {
  RankSet out;
  size_t at = 0;
  for (Range range : ranges_) {
    while (at < other.ranges_.size() && other.ranges_[at].last < range.first) {
      ++at;
    }
    for (size_t i = at;
         i < other.ranges_.size() && other.ranges_[i].first <= range.last;
         ++i) {
      if (other.ranges_[i].first > range.first) {
        out.ranges_.push_back({range.first, other.ranges_[i].first - 1});
      }
      range.first = other.ranges_[i].last + 1;
    }
    if (range.first <= range.last) out.ranges_.push_back(range);
  }
  return out;
}

RankSet RankSet::Intersection(const RankSet& other) const {
  return Minus(Minus(other));
}

void RankSet::Write(Ranges& out) const {
  for (const Range& range : ranges_) {
    v1::RankRange& added = *out.Add();
    added.set_first(static_cast<int32_t>(range.first));
    added.set_last(static_cast<int32_t>(range.last));
  }
}

std::vector<int32_t> RankSet::Ranks(int64_t limit) const {
  std::vector<int32_t> out;
  for (const Range& range : ranges_) {
    for (int64_t rank = range.first; rank <= range.last; ++rank) {
      if (std::ssize(out) >= limit) return out;
      out.push_back(static_cast<int32_t>(rank));
    }
  }
  return out;
}

std::string RankSet::Text() const {
  std::string out;
  for (const Range& range : ranges_) {
    out += fmt::format("{}{}", out.empty() ? "" : ",", range.first);
    if (range.last != range.first) out += fmt::format("-{}", range.last);
  }
  return out;
}

}  // namespace msitd::ask
