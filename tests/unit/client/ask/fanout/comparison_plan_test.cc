// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/comparison_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protos/base/rank_set_message.h"

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;

RankSet Of(const std::vector<int32_t>& ranks) { return RankSet::Of(ranks); }

// Returns the ranks of a run that three nodes hold. A node with a negative rank
// does not have the run.
RunShares Shares(const std::vector<std::vector<int32_t>>& ranks) {
  RunShares out(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].empty() && ranks[i].front() < 0) continue;
    out.has[i] = true;
    out.held[i] = Of(ranks[i]);
    out.ids[i] = "id" + std::to_string(i);
  }
  return out;
}

class SplitComparisonTest : public ::testing::Test {
 protected:
  NodeComparisons Split(const RunShares& golden, const RunShares& target) {
    NodeComparisons out;
    const Outcome outcome =
        SplitComparison(request_, {"n0", "n1", "n2"}, golden, target, out);
    EXPECT_TRUE(outcome.ok()) << outcome.error;
    return out;
  }

  static std::string Required(const NodeComparisons& split, size_t node) {
    return RankSetOf(split.requests[node]->comparison().golden_required_ranks())
        .Text();
  }

  static std::vector<int32_t> FilterRanks(const NodeComparisons& split,
                                          size_t node) {
    const auto& list = split.requests[node]->comparison().filter().ranks();
    return {list.begin(), list.end()};
  }

  v1::CreateComparisonRequest request_;
};

TEST_F(SplitComparisonTest, EveryPartHasToCoverAllRanks) {
  const NodeComparisons split =
      Split(Shares({{0}, {1}, {2}}), Shares({{0}, {1}, {2}}));
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_NE(split.requests[i], nullptr);
    EXPECT_EQ(Required(split, i), "0-2");
    EXPECT_EQ(split.requests[i]->comparison().filter().ranks_size(), 0);
    EXPECT_EQ(split.requests[i]->comparison().golden_run_id(),
              "id" + std::to_string(i));
  }
  EXPECT_TRUE(split.golden_uncovered.empty());
}

TEST_F(SplitComparisonTest, RanksOfANodeThatLacksARunAreRequired) {
  const NodeComparisons split =
      Split(Shares({{0}, {1}, {2}}), Shares({{0}, {1}, {-1}}));
  EXPECT_EQ(split.requests[2], nullptr);
  EXPECT_EQ(Required(split, 0), "0-2");
  EXPECT_EQ(split.golden_uncovered.Text(), "2");
  EXPECT_TRUE(split.target_uncovered.empty());
}

TEST_F(SplitComparisonTest, RanksThatNoNodeHoldsAreRequired) {
  RunShares golden = Shares({{0}, {1}, {-1}});
  golden.lacking = Of({2});
  const NodeComparisons split = Split(golden, Shares({{0}, {1}, {-1}}));
  EXPECT_EQ(Required(split, 1), "0-2");
  // The daemons report the missing ranks.
  EXPECT_TRUE(split.golden_uncovered.empty());
}

TEST_F(SplitComparisonTest, RanksThatWereNotAskedForAreNotRequired) {
  request_.mutable_comparison()->mutable_filter()->add_ranks(0);
  const NodeComparisons split =
      Split(Shares({{0}, {1}, {2}}), Shares({{0}, {1}, {-1}}));
  EXPECT_EQ(Required(split, 0), "0");
  EXPECT_EQ(split.requests[1], nullptr);
  EXPECT_TRUE(split.golden_uncovered.empty());
}

TEST_F(SplitComparisonTest, PairsOfRanksAreLeftToTheDaemons) {
  v1::Matching::RankPair& pair =
      *request_.mutable_comparison()->mutable_matching()->add_ranks();
  pair.set_golden_rank(0);
  pair.set_target_rank(1);
  const NodeComparisons split =
      Split(Shares({{0, 1}, {-1}, {-1}}), Shares({{0, 1}, {-1}, {-1}}));
  ASSERT_NE(split.requests[0], nullptr);
  EXPECT_EQ(Required(split, 0), "0");
  EXPECT_EQ(
      RankSetOf(split.requests[0]->comparison().target_required_ranks()).Text(),
      "1");
  EXPECT_EQ(split.requests[0]->comparison().filter().ranks_size(), 0);
}

TEST_F(SplitComparisonTest, ACopyIsComparedOnOneNodeOnly) {
  const NodeComparisons split =
      Split(Shares({{0, 1}, {0, 1}, {0, 1}}), Shares({{0}, {0, 1}, {1}}));
  EXPECT_EQ(FilterRanks(split, 0), (std::vector<int32_t>{0}));
  EXPECT_EQ(FilterRanks(split, 1), (std::vector<int32_t>{1}));
  EXPECT_EQ(split.requests[2], nullptr);
  EXPECT_TRUE(split.golden_uncovered.empty());
}

TEST_F(SplitComparisonTest, RanksThatAreApartAreAskedOfBothNodes) {
  const NodeComparisons split =
      Split(Shares({{0}, {1}, {-1}}), Shares({{1}, {0}, {-1}}));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(FilterRanks(split, i), (std::vector<int32_t>{0, 1}));
  }
  EXPECT_TRUE(split.golden_uncovered.empty());
  EXPECT_TRUE(split.target_uncovered.empty());
}

TEST_F(SplitComparisonTest, ACopyOfARankThatIsApartIsAskedOfOneNode) {
  const NodeComparisons split =
      Split(Shares({{0, 1}, {0, 2}, {3}}), Shares({{1}, {2}, {0, 3}}));
  EXPECT_EQ(FilterRanks(split, 0), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(FilterRanks(split, 1), (std::vector<int32_t>{2}));
  EXPECT_EQ(FilterRanks(split, 2), (std::vector<int32_t>{0, 3}));
}

TEST_F(SplitComparisonTest, NoNodeComparesASplitRank) {
  RunShares golden = Shares({{0, 1}, {1, 2}, {-1}});
  golden.split = Of({1});
  const NodeComparisons split = Split(golden, Shares({{0, 1}, {2}, {-1}}));
  EXPECT_EQ(FilterRanks(split, 0), (std::vector<int32_t>{0}));
  EXPECT_EQ(FilterRanks(split, 1), (std::vector<int32_t>{2}));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(Required(split, i), "0-2");
  EXPECT_EQ(split.golden_uncovered.Text(), "1");
  EXPECT_EQ(split.target_uncovered.Text(), "1");
}

TEST_F(SplitComparisonTest, ASplitRankThatWasNotAskedForIsNotRequired) {
  request_.mutable_comparison()->mutable_filter()->add_ranks(0);
  RunShares golden = Shares({{0, 1}, {1, 2}, {-1}});
  golden.split = Of({1});
  const NodeComparisons split = Split(golden, Shares({{0, 1}, {2}, {-1}}));
  EXPECT_EQ(FilterRanks(split, 0), (std::vector<int32_t>{0}));
  EXPECT_EQ(Required(split, 0), "0");
  EXPECT_TRUE(split.golden_uncovered.empty());
}

TEST_F(SplitComparisonTest, NothingIsComparedIfASplitRankCannotBeLeftOut) {
  request_.mutable_comparison()->set_golden_run("g");
  request_.mutable_comparison()->set_target_run("t");
  const auto refusal = [this](const RunShares& golden,
                              const RunShares& target) {
    NodeComparisons out;
    const Outcome outcome =
        SplitComparison(request_, {"n0", "n1", "n2"}, golden, target, out);
    EXPECT_EQ(outcome.exit_code, kExitPartial);
    return outcome.error;
  };
  RunShares split = Shares({{0}, {0}, {-1}});
  split.split = Of({0});
  const std::string why = "n0 and n1 hold different records of rank 0 of run ";
  // The split rank is the only one.
  EXPECT_EQ(refusal(split, Shares({{0}, {-1}, {-1}})),
            "nothing was compared: " + why + "g; " + std::string(kSplitAdvice));
  EXPECT_THAT(refusal(Shares({{0}, {-1}, {-1}}), split), HasSubstr(why + "t"));
  // Tensors of other ranks may be sharded across the split rank.
  RunShares sharded = Shares({{0, 1}, {0}, {-1}});
  sharded.split = Of({0});
  sharded.has_placements = true;
  EXPECT_THAT(refusal(sharded, Shares({{0, 1}, {-1}, {-1}})), HasSubstr(why));
  sharded.has_placements = false;
  request_.mutable_comparison()->mutable_matching()->add_golden_layouts();
  EXPECT_THAT(refusal(sharded, Shares({{0, 1}, {-1}, {-1}})), HasSubstr(why));
}

TEST_F(SplitComparisonTest, RanksThatNoNodeHasAreAskedOfOneNode) {
  request_.mutable_comparison()->mutable_filter()->add_ranks(7);
  const NodeComparisons split =
      Split(Shares({{0}, {1}, {-1}}), Shares({{0, 1}, {-1}, {-1}}));
  ASSERT_NE(split.requests[0], nullptr);
  EXPECT_EQ(FilterRanks(split, 0), (std::vector<int32_t>{7}));
}

TEST_F(SplitComparisonTest, SharesThatAreNotAlignedAreComparedByRank) {
  const NodeComparisons split =
      Split(Shares({{0, 1}, {2}, {-1}}), Shares({{0}, {1, 2}, {-1}}));
  // No node has both sides of rank 1, so both nodes report it.
  EXPECT_EQ(FilterRanks(split, 0), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(FilterRanks(split, 1), (std::vector<int32_t>{1, 2}));
}

}  // namespace
}  // namespace msitd::ask
