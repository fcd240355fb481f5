// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/foreign/match/limits.h"
#include "tests/unit/client/foreign/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ArgumentsTest, NumbersAreInTheOrderOfNumbers) {
  const std::vector<std::string> sorted = {
      "", "0", "1", "1.0", "1.", "1.2", "1.10", "2", "10", "mask", "mask.1"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      const bool is_odd = sorted[i] == "1." || sorted[j] == "1.";
      if (!is_odd) {
        EXPECT_EQ(ComesBefore(sorted[i], sorted[j]), i < j)
            << sorted[i] << " " << sorted[j];
      }
      // The order is antisymmetric.
      EXPECT_FALSE(ComesBefore(sorted[i], sorted[j]) &&
                   ComesBefore(sorted[j], sorted[i]));
      EXPECT_EQ(!ComesBefore(sorted[i], sorted[j]) &&
                    !ComesBefore(sorted[j], sorted[i]),
                i == j);
    }
  }
}

TEST(ArgumentsTest, FactsHaveEachTensorOnce) {
  RunBuilder builder("ge");
  for (int token = 0; token < 2; ++token) {
    for (int i = 0; i < 12; ++i) {
      builder.Tensor("Add", 0, Io::kInput, std::to_string(i), 4);
    }
    builder.Tensor("Add", 1, Io::kInput, "0", 40);
  }
  const RunFacts run = builder.Build();
  ASSERT_EQ(run.ops.size(), 1u);
  EXPECT_EQ(run.ops[0].tensors.size(), 12u);
  EXPECT_EQ(run.ops[0].call_count, 2);
  EXPECT_EQ(run.ops[0].tensors[2].index, "2");
  const auto by_text = ArgumentsByText(run.ops[0], Io::kInput);
  EXPECT_EQ(run.ops[0].tensors[by_text[2]].index, "10");
  EXPECT_THAT(ArgumentsOf(run.ops[0], Io::kOutput), IsEmpty());
}

TEST(ArgumentsTest, LargestCallHasMostBytes) {
  const RunFacts run =
      RunBuilder("ge").Op("A", {4}, {4}, 0).Op("A", {8}, {8}, 1).Build();
  EXPECT_EQ(run.ops[0].largest_call, 1);
}

TEST(ArgumentsTest, TooManyAreRefused) {
  FactsBuilder builder;
  for (size_t i = 0; i < kOpsMax; ++i) {
    ASSERT_TRUE(builder.Add(std::to_string(i), 0, Io::kInput, "0", {}, 0).ok());
  }
  EXPECT_TRUE(builder.Add("0", 0, Io::kInput, "0", {}, 0).ok());
  EXPECT_TRUE(
      absl::IsResourceExhausted(builder.Add("a", 0, Io::kInput, "0", {}, 0)));
}

// Aligns tensors of a run with one rank.
Alignment AlignCounts(const std::vector<uint64_t>& golden,
                      const std::vector<uint64_t>& target) {
  const auto sizes_of = [](const std::vector<uint64_t>& counts) {
    std::vector<TensorSizes> out;
    for (const uint64_t count : counts) out.push_back({count, count});
    return out;
  };
  return AlignSizes(sizes_of(golden), sizes_of(target));
}

TEST(ArgumentsTest, WhatHasASizeOfItsOwnIsFoundAmongOthers) {
  EXPECT_THAT(AlignCounts({4, 1, 9}, {4, 9}),
              ElementsAre(Pair(0, 0), Pair(2, 1)));
  EXPECT_THAT(AlignCounts({4, 9}, {9, 4}), ElementsAre(Pair(1, 0)));
  EXPECT_THAT(AlignCounts({}, {4}), IsEmpty());
  EXPECT_THAT(AlignCounts({3}, {4}), IsEmpty());
  const std::vector<uint64_t> many(kAlignCellsMax, 1);
  EXPECT_THAT(AlignCounts({1, 1}, many), IsEmpty());
}

TEST(ArgumentsTest, NumbersThatAreMissingKeepTheOthersInPlace) {
  const auto aligned = [](const std::vector<std::string>& numbers,
                          int64_t size) {
    const RunFacts golden = RunBuilder("fx").Op("a", {4, 4, 4}, {}, 0).Build();
    RunBuilder builder("ge");
    for (const std::string& number : numbers) {
      builder.Tensor("A", 0, Io::kInput, number, size);
    }
    const RunFacts target = builder.Build();
    return Align(golden.ops[0], ArgumentsOf(golden.ops[0], Io::kInput),
                 target.ops[0], ArgumentsOf(target.ops[0], Io::kInput));
  };
  EXPECT_THAT(aligned({"2"}, 4), ElementsAre(Pair(2, 0)));
  EXPECT_THAT(aligned({"0", "2"}, 4), ElementsAre(Pair(0, 0), Pair(2, 1)));
  EXPECT_THAT(aligned({"0", "1", "2"}, 4),
              ElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2)));
  // It is not known whether the last one is missing or has no counterpart.
  EXPECT_THAT(aligned({"0", "1"}, 4), ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_THAT(aligned({"2"}, 5), IsEmpty());
  EXPECT_THAT(aligned({"18446744073709551615"}, 4), ElementsAre(Pair(0, 0)));
}

TEST(ArgumentsTest, PiecesHaveTheSizeOfAllOfThem) {
  // One tensor is copied on both ranks, and the other is split in halves.
  EXPECT_THAT(AlignSizes({{8, 8}, {8, 8}}, {{8, 16}, {4, 8}}),
              ElementsAre(Pair(0, 0), Pair(1, 1)));
  EXPECT_THAT(AlignSizes({{4, 8}}, {{2, 8}}), ElementsAre(Pair(0, 0)));
  EXPECT_THAT(AlignSizes({{8, 8}}, {{3, 6}}), IsEmpty());
}

TEST(ArgumentsTest, SizesOfAllRanksAreThoseOfTheFirstAndTheLastToken) {
  FactsBuilder builder;
  for (const int32_t rank : {0, 2}) {
    builder.GoToRank(rank);
    for (const int64_t count : {3, 5, 4 + rank}) {
      ASSERT_TRUE(builder.Add("a", 0, Io::kOutput, "0", {count}, 1).ok());
    }
  }
  const TensorFacts tensor = builder.Finish()[0].tensors[0];
  EXPECT_EQ(tensor.all_count, 6u);
  EXPECT_EQ(tensor.last_all_count, 10u);
  EXPECT_THAT(tensor.last_shape, ElementsAre(6));
}

TEST(ArgumentsTest, AlignmentsAscend) {
  // All lists of up to five elements with three possible sizes.
  std::vector<std::vector<uint64_t>> lists = {{}};
  for (size_t i = 0; lists[i].size() < 4; ++i) {
    for (uint64_t size = 1; size <= 2; ++size) {
      auto longer = lists[i];
      longer.push_back(size);
      lists.push_back(std::move(longer));
    }
  }
  for (const auto& golden : lists) {
    for (const auto& target : lists) {
      const Alignment pairs = AlignCounts(golden, target);
      for (size_t i = 0; i < pairs.size(); ++i) {
        EXPECT_EQ(golden[pairs[i].first], target[pairs[i].second]);
        if (i == 0) continue;
        EXPECT_LT(pairs[i - 1].first, pairs[i].first);
        EXPECT_LT(pairs[i - 1].second, pairs[i].second);
      }
      if (golden == target) {
        EXPECT_EQ(pairs.size(), golden.size());
      }
    }
  }
}

}  // namespace
}  // namespace msitd::match
