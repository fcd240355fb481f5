// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace msitd {

// Consecutive ranks, including `last`.
struct RankRange {
  int32_t first = 0;
  int32_t last = 0;

  friend bool operator==(const RankRange&, const RankRange&) = default;
};

// Ranges that texts list by default.
inline constexpr size_t kRangesShown = 8;

// A set of ranks or group numbers, stored as ranges, because a run can state a
// world of a million ranks.
//
// Immutable, hence thread-safe.
class RankSet {
 public:
  RankSet() = default;

  // `ranges` can have any order and may overlap. Ranges without ranks are
  // ignored.
  explicit RankSet(std::vector<RankRange> ranges);

  // `ranks` can have any order, and duplicates.
  static RankSet Of(std::span<const int32_t> ranks);

  // The ranges ascend and are not adjacent.
  const std::vector<RankRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  // Returns the number of ranks in the set.
  int64_t count() const;
  // Returns -1 if the set is empty.
  int64_t first() const { return empty() ? -1 : ranges_.front().first; }

  bool Has(int32_t rank) const { return HasAll({rank, rank}); }
  bool HasAll(RankRange ranks) const;
  bool HasAnyOf(RankRange ranks) const;

  RankSet Union(const RankSet& other) const;
  RankSet Minus(const RankSet& other) const;
  RankSet Intersection(const RankSet& other) const;

  // Returns the first `limit` ranks of the set.
  std::vector<int32_t> Ranks(size_t limit) const;
  // Returns text such as `0-3,7`, which ends with `,...` if there are more than
  // `ranges_max` ranges.
  std::string Text(size_t ranges_max = kRangesShown) const;

  friend bool operator==(const RankSet&, const RankSet&) = default;

 private:
  // Returns the first range that ends at or after `rank`.
  std::vector<RankRange>::const_iterator From(int32_t rank) const;

  std::vector<RankRange> ranges_;
};

}  // namespace msitd
