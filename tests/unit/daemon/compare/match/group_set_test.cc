// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;

TokenRuns Runs(const std::vector<int64_t>& tokens) {
  TokenRuns out;
  for (const int64_t token : tokens) out.Append(token);
  return out;
}

std::vector<int64_t> TokensOf(const TokenRuns& runs) {
  std::vector<int64_t> out;
  TokenCursor cursor(runs);
  while (const auto token = cursor.Next()) out.push_back(*token);
  return out;
}

std::vector<GroupKey> KeysOf(const GroupSet& groups) {
  std::vector<GroupKey> out;
  GroupCursor cursor(groups);
  while (const auto key = cursor.Next()) out.push_back(*key);
  return out;
}

TEST(TokenRunsTest, EvenlySpacedTokensAreOneRun) {
  EXPECT_THAT(Runs({0, 1, 2, 3}).runs(), ElementsAre(TokenRuns::Run{0, 3, 1}));
  EXPECT_THAT(Runs({5, 105, 205}).runs(),
              ElementsAre(TokenRuns::Run{5, 205, 100}));
  EXPECT_THAT(Runs({7}).runs(), ElementsAre(TokenRuns::Run{7, 7, 0}));
  EXPECT_THAT(Runs({0, 1, 2, 10, 20, 30}).runs(),
              ElementsAre(TokenRuns::Run{0, 2, 1}, TokenRuns::Run{10, 30, 10}));
  EXPECT_TRUE(Runs({}).empty());
}

TEST(TokenRunsTest, AnyTokensComeBackAndTakeHalfAsManyRuns) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::set<int64_t> tokens;
    const int count = static_cast<int>(random() % 40);
    for (int i = 0; i < count; ++i) tokens.insert(random() % 100);
    const TokenRuns runs = Runs({tokens.begin(), tokens.end()});
    EXPECT_THAT(TokensOf(runs), ::testing::ElementsAreArray(tokens));
    EXPECT_EQ(runs.count(), tokens.size());
    EXPECT_LE(runs.runs().size(), (tokens.size() + 1) / 2);
    for (int64_t token = -1; token <= 100; ++token) {
      EXPECT_EQ(runs.Has(token), tokens.contains(token)) << token;
    }
    TokenRuns inserted;
    std::vector<int64_t> shuffled(tokens.begin(), tokens.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    for (const int64_t token : shuffled) inserted.Insert(token);
    for (const int64_t token : shuffled) inserted.Insert(token);
    EXPECT_EQ(inserted, runs);
  }
}

TEST(GroupSetTest, GroupsComeByTokenThenRank) {
  GroupSet groups;
  EXPECT_TRUE(KeysOf(groups).empty());
  groups.Add(3, Runs({0, 1, 2}));
  groups.Add(1, Runs({1}));
  groups.Insert({2, 1});
  groups.Insert({2, 1});
  groups.Insert({0, 5});
  EXPECT_EQ(groups.count(), 6u);
  EXPECT_THAT(KeysOf(groups),
              ElementsAre(GroupKey{0, 3}, GroupKey{0, 5}, GroupKey{1, 1},
                          GroupKey{1, 3}, GroupKey{2, 1}, GroupKey{2, 3}));
  EXPECT_TRUE(groups.Has({1, 1}));
  EXPECT_FALSE(groups.Has({0, 1}));
  EXPECT_FALSE(groups.Has({0, 2}));
}

TEST(GroupCollectorTest, TokensOfARankComeOnce) {
  std::mt19937 random(3);
  GroupCollector collector;
  std::set<GroupKey> expected;
  for (int i = 0; i < 60; ++i) {
    std::set<int64_t> tokens;
    const auto rank = static_cast<int32_t>(random() % 3);
    for (int j = 0; j < 10; ++j) tokens.insert(random() % 50);
    ASSERT_TRUE(collector.Add(rank, Runs({tokens.begin(), tokens.end()})).ok());
    for (const int64_t token : tokens) expected.insert({token, rank});
  }
  const auto groups = std::move(collector).Finish();
  ASSERT_TRUE(groups.ok());
  EXPECT_THAT(KeysOf(*groups), ::testing::ElementsAreArray(expected));
  EXPECT_EQ(groups->count(), expected.size());
}

TEST(GroupCollectorTest, SameTokensOfManyRanksTakeNoMore) {
  GroupCollector collector;
  TokenRuns tokens;
  for (int64_t token = 0; token < 10'000; ++token) tokens.Append(token * 3);
  for (int i = 0; i < 1024; ++i) {
    for (const int32_t rank : {0, i}) {
      ASSERT_TRUE(collector.Add(rank, tokens).ok());
    }
  }
  const auto groups = std::move(collector).Finish();
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(groups->count(), 1024u * 10'000);
  EXPECT_EQ(groups->run_count(), 1024u);
}

TEST(GroupCollectorTest, TokensWithoutOrderAreBounded) {
  GroupCollector collector;
  std::mt19937_64 random(5);
  absl::Status status;
  size_t count = 0;
  for (int32_t rank = 0; status.ok() && rank < 10'000; ++rank) {
    TokenRuns tokens;
    int64_t token = 0;
    for (int i = 0; i < 1000; ++i) {
      token += static_cast<int64_t>(1 + random() % 1'000'000);
      tokens.Append(token);
    }
    status = collector.Add(rank, tokens);
    count += tokens.count();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(count, kGroupRunsMax) << "at least as many as there are runs";
}

}  // namespace
}  // namespace msitd::compare
