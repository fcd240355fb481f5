// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "storage/run_ranks.h"

namespace msitd::compare {

// A set of ranks or group numbers, stored as ranges, because a run can state a
// million ranks.
//
// Immutable, hence thread-safe.
class RankRanges {
 public:
  RankRanges() = default;

  // `ranges` can have any order and may overlap.
  explicit RankRanges(std::vector<storage::RankRange> ranges);

  // The ranges ascend and are not adjacent.
  const std::vector<storage::RankRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  // Returns the number of ranks in the set.
  int64_t count() const;

  bool Has(int32_t rank) const { return HasAll({rank, rank}); }
  bool HasAll(storage::RankRange ranks) const;
  bool HasAnyOf(storage::RankRange ranks) const;

  // Appends the part of `ranks` that is in the set.
  void AddPartOf(storage::RankRange ranks,
                 std::vector<storage::RankRange>& out) const;

 private:
  // Returns the first range that ends at or after `rank`.
  std::vector<storage::RankRange>::const_iterator From(int32_t rank) const;

  std::vector<storage::RankRange> ranges_;
};

}  // namespace msitd::compare
