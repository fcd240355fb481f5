// SPDX-License-Identifier: Apache-2.0
#include "protos/base/rank_set.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace msitd {
namespace {

using Ranks = std::vector<int32_t>;

TEST(RankSetTest, JoinsRangesOfAnyOrder) {
  const RankSet ranks({{5, 6}, {0, 1}, {2, 2}, {6, 8}, {4, 3}});
  EXPECT_EQ(ranks.ranges(), (std::vector<RankRange>{{0, 2}, {5, 8}}));
  EXPECT_EQ(ranks.count(), 7);
  EXPECT_EQ(ranks.first(), 0);
  EXPECT_EQ(RankSet().first(), -1);
  EXPECT_EQ(RankSet({{INT32_MAX, INT32_MAX}, {0, INT32_MAX}}).count(),
            int64_t{INT32_MAX} + 1);
}

TEST(RankSetTest, HasSingleRanks) {
  EXPECT_EQ(RankSet::Of(Ranks{7, 1, 2, 1, 3}), RankSet({{1, 3}, {7, 7}}));
  EXPECT_EQ(RankSet::Of(Ranks{}), RankSet());
  EXPECT_EQ(RankSet::Of(Ranks{INT32_MAX, 0, -1}).Text(4), "-1-0,2147483647");
}

TEST(RankSetTest, FindsRanges) {
  const RankSet ranks({{0, 2}, {5, 8}});
  EXPECT_TRUE(ranks.Has(8));
  EXPECT_FALSE(ranks.Has(9));
  EXPECT_TRUE(ranks.HasAll({5, 8}));
  EXPECT_FALSE(ranks.HasAll({2, 5}));
  EXPECT_TRUE(ranks.HasAnyOf({2, 5}));
  EXPECT_TRUE(ranks.HasAnyOf({3, 9}));
  EXPECT_FALSE(ranks.HasAnyOf({3, 4}));
  EXPECT_FALSE(ranks.HasAnyOf({9, 10}));
}

TEST(RankSetTest, ListsTheFirstRanks) {
  EXPECT_EQ(RankSet({{0, INT32_MAX}}).Ranks(3), (Ranks{0, 1, 2}));
  EXPECT_EQ(RankSet({{1, 2}, {5, 5}}).Ranks(9), (Ranks{1, 2, 5}));
}

TEST(RankSetTest, TextOfManyRangesIsCutOff) {
  EXPECT_EQ(RankSet({{4, 6}, {0, 1}, {2, 2}}).Text(), "0-2,4-6");
  EXPECT_EQ(RankSet().Text(), "");
  Ranks odd;
  for (int32_t rank = 1; rank < 20; rank += 2) odd.push_back(rank);
  EXPECT_EQ(RankSet::Of(odd).Text(), "1,3,5,7,9,11,13,15,...");
  EXPECT_EQ(RankSet::Of(odd).Text(2), "1,3,...");
}

TEST(RankSetTest, AgreesWithSetsOfNumbers) {
  std::mt19937 random(19);
  const auto number = [&](int32_t end) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(end));
  };
  for (int round = 0; round < 2000; ++round) {
    RankSet sets[2];
    std::set<int32_t> expected[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<RankRange> ranges;
      for (int i = number(4); i > 0; --i) {
        const int32_t first = number(12);
        ranges.push_back({first, first + number(4)});
        for (int32_t rank = first; rank <= ranges.back().last; ++rank) {
          expected[side].insert(rank);
        }
      }
      sets[side] = RankSet(ranges);
    }
    std::set<int32_t> joined = expected[0];
    joined.insert(expected[1].begin(), expected[1].end());
    std::set<int32_t> rest;
    std::set<int32_t> shared;
    for (const int32_t rank : expected[0]) {
      (expected[1].contains(rank) ? shared : rest).insert(rank);
    }
    const auto numbers = [](const RankSet& set) {
      const Ranks ranks = set.Ranks(100);
      EXPECT_EQ(set, RankSet::Of(ranks));
      return std::set<int32_t>(ranks.begin(), ranks.end());
    };
    EXPECT_EQ(numbers(sets[0].Union(sets[1])), joined);
    EXPECT_EQ(numbers(sets[0].Minus(sets[1])), rest);
    EXPECT_EQ(numbers(sets[0].Intersection(sets[1])), shared);
    EXPECT_EQ(sets[0].Union(sets[1]), sets[1].Union(sets[0]));
  }
}

}  // namespace
}  // namespace msitd
