// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/rank_set.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <set>
#include <utility>

namespace msitd::ask {
namespace {

RankSet SetOf(std::initializer_list<std::pair<int32_t, int32_t>> ranges) {
  RankSet::Ranges out;
  for (const auto& [first, last] : ranges) {
    v1::RankRange& range = *out.Add();
    range.set_first(first);
    range.set_last(last);
  }
  return RankSet(out);
}

TEST(RankSetTest, JoinsRangesOfAnyOrder) {
  EXPECT_EQ(SetOf({{4, 6}, {0, 1}, {2, 2}, {5, 9}}).Text(), "0-2,4-9");
  EXPECT_EQ(SetOf({{3, 2}, {-5, -1}}).Text(), "");
  EXPECT_EQ(SetOf({{INT32_MAX, INT32_MAX}, {0, INT32_MAX}}).size(),
            int64_t{INT32_MAX} + 1);
  EXPECT_EQ(SetOf({}).first(), -1);
  EXPECT_EQ(SetOf({{7, 7}}).first(), 7);
}

TEST(RankSetTest, GivesNoMoreRanksThanAskedFor) {
  EXPECT_EQ(SetOf({{0, INT32_MAX}}).Ranks(3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(SetOf({{1, 2}, {5, 5}}).Ranks(9), (std::vector<int32_t>{1, 2, 5}));
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
      RankSet::Ranges ranges;
      for (int i = number(4); i > 0; --i) {
        v1::RankRange& range = *ranges.Add();
        range.set_first(number(12));
        range.set_last(range.first() + number(4));
        for (int32_t rank = range.first(); rank <= range.last(); ++rank) {
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
      const std::vector<int32_t> ranks = set.Ranks(100);
      return std::set<int32_t>(ranks.begin(), ranks.end());
    };
    EXPECT_EQ(numbers(sets[0].Union(sets[1])), joined);
    EXPECT_EQ(numbers(sets[0].Minus(sets[1])), rest);
    EXPECT_EQ(numbers(sets[0].Intersection(sets[1])), shared);
    EXPECT_EQ(sets[0].Union(sets[1]), sets[1].Union(sets[0]));
  }
}

}  // namespace
}  // namespace msitd::ask
