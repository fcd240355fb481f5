// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "storage/run_ranks.h"

namespace msitd::compare {

// A set of ranks, or of group numbers, as ranges: a run may claim a million.
//
// Immutable, hence thread-safe.
class RankRanges {
 public:
  RankRanges() = default;

  // In any order; they may overlap.
  explicit RankRanges(std::vector<storage::RankRange> ranges);

  // They ascend and do not touch.
  const std::vector<storage::RankRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  // How many ranks they are.
  int64_t count() const;

  bool Has(int32_t rank) const { return HasAll({rank, rank}); }
  bool HasAll(storage::RankRange ranks) const;
  bool HasAnyOf(storage::RankRange ranks) const;

  // Appends those of `ranks` that are in the set.
  void AddPartOf(storage::RankRange ranks,
                 std::vector<storage::RankRange>& out) const;

 private:
  // The first one that ends behind `rank`, or with it.
  std::vector<storage::RankRange>::const_iterator From(int32_t rank) const;

  std::vector<storage::RankRange> ranges_;
};

}  // namespace msitd::compare
