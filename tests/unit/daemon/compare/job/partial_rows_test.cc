// SPDX-License-Identifier: Apache-2.0
// Tests of comparisons of runs that lack ranks, and of the results that such
// runs can prove.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

class PartialRowsTest : public testing::EitherStoreTest {
 protected:
  static void Record(RunRecorder& run, const std::string& op, int32_t rank,
                     std::vector<float> values = {1},
                     const std::string& placement = "",
                     const std::string& device = "cpu:0", Io io = Io::kOutput) {
    RecordedTensor tensor = Floats(op, values);
    tensor.io = io;
    tensor.rank = rank;
    tensor.placement = placement;
    tensor.device = device;
    run.Record(tensor);
  }

  void SetWorlds(int32_t golden, int32_t target) {
    ASSERT_TRUE(store_.runs().SetWorldSize("g", golden).ok());
    ASSERT_TRUE(store_.runs().SetWorldSize("t", target).ok());
  }

  void AddLayout(bool is_golden, std::string pattern, v1::Layout::Kind kind) {
    v1::Layout& layout = is_golden ? *matching_.add_golden_layouts()
                                   : *matching_.add_target_layouts();
    layout.set_op_pattern(std::move(pattern));
    layout.set_kind(kind);
  }

  v1::ComparisonRow RowOf(const std::string& op) {
    plan_.matching = *MatchRules::Create(matching_);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    comparison_ = observer.comparison;
    for (const v1::ComparisonRow& row : observer.rows) {
      if (row.op() == op) return row;
    }
    ADD_FAILURE() << "no row of " << op;
    return v1::ComparisonRow();
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  v1::Comparison comparison_;
};

MSITD_ON_BOTH_STORES(PartialRowsTest);

TEST_P(PartialRowsTest, ShardThatARankWhichIsThereLacksIsMissing) {
  SetWorlds(1, 4);
  AddLayout(false, "w", v1::Layout::CONCAT);
  Record(golden_, "w", 0, {1, 2, 3, 4});
  Record(target_, "w", 0, {1});
  Record(target_, "other", 1);
  Record(target_, "w", 2, {3});
  v1::ComparisonRow row = RowOf("w");
  EXPECT_EQ(row.verdict(), v1::UNMATCHED);
  EXPECT_THAT(row.reason(), HasSubstr("ranks 1,3 have no such tensor"));
  EXPECT_FALSE(row.for_want_of_ranks());
  Record(target_, "w", 1, {2});
  row = RowOf("w");
  EXPECT_TRUE(row.for_want_of_ranks());
  EXPECT_THAT(row.reason(), HasSubstr("; run t lacks rank 3"));
}

TEST_P(PartialRowsTest, TensorThatNoAbsentRankWouldHaveIsMissing) {
  SetWorlds(2, 2);
  AddLayout(false, "w", v1::Layout::CONCAT);
  for (const int32_t rank : {0, 1}) Record(golden_, "y", rank);
  Record(golden_, "w", 0, {1, 2});
  Record(target_, "w", 0, {1});
  v1::ComparisonRow row = RowOf("y");
  EXPECT_EQ(row.rank(), 0);
  EXPECT_FALSE(row.for_want_of_ranks());
  EXPECT_TRUE(RowOf("w").for_want_of_ranks());
  EXPECT_EQ(comparison_.unmatched_count(), 3);
  // The tensor of rank 1 may exist on a missing rank.
  EXPECT_EQ(comparison_.for_want_of_ranks_count(), 2);
  // A rewrite may have renamed an op that has shards.
  v1::Matching::Rewrite& rewrite = *matching_.add_rewrites();
  rewrite.set_regex("x");
  rewrite.set_replacement("y");
  EXPECT_FALSE(RowOf("y").for_want_of_ranks());
  AddLayout(false, "x", v1::Layout::PICK);
  matching_.mutable_target_layouts(1)->set_rank(1);
  EXPECT_TRUE(RowOf("y").for_want_of_ranks());
}

TEST_P(PartialRowsTest, CopiesThatDifferProveAFailure) {
  SetWorlds(2, 3);
  AddLayout(true, "*", v1::Layout::REPLICATED);
  AddLayout(false, "*", v1::Layout::REPLICATED);
  Record(golden_, "op", 0);
  Record(target_, "op", 0);
  EXPECT_TRUE(RowOf("op").for_want_of_ranks());
  Record(target_, "op", 1, {9});
  const v1::ComparisonRow row = RowOf("op");
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("rank 1 has other bytes than rank 0"));
}

TEST_P(PartialRowsTest, CopiesOfAPlacementProveAFailureToo) {
  SetWorlds(1, 4);
  Record(golden_, "op", 0, {1, 2});
  for (const int32_t rank : {0, 1}) {
    Record(target_, "op", rank, {1 + 8.0F * static_cast<float>(rank)},
           "0+2x2/2x1:S(0),R");
  }
  const v1::ComparisonRow row = RowOf("op");
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("rank 1 has other bytes than rank 0"));
}

TEST_P(PartialRowsTest, ShardsThatOverlapAreNoWant) {
  SetWorlds(1, 2);
  AddLayout(false, "w", v1::Layout::CONCAT);
  Record(golden_, "w", 0, {1, 2});
  Record(target_, "w", 0, {1}, "", "cpu:0");
  Record(target_, "w", 0, {1}, "", "cpu:1");
  const v1::ComparisonRow row = RowOf("w");
  EXPECT_EQ(row.verdict(), v1::UNMATCHED);
  EXPECT_THAT(row.reason(), HasSubstr("shards overlap"));
  EXPECT_FALSE(row.for_want_of_ranks());
}

TEST_P(PartialRowsTest, PlacedShardsOfAbsentRanksProveNothing) {
  SetWorlds(1, 2);
  Record(golden_, "w", 0, {1, 2});
  Record(golden_, "v", 0, {1, 2});
  Record(target_, "w", 0, {1}, "0+2/1:S(0)");
  EXPECT_TRUE(RowOf("w").for_want_of_ranks());
  // Rank 0 has no part of the tensor. It may be a copy that only rank 1 has.
  EXPECT_TRUE(RowOf("v").for_want_of_ranks());
  Record(target_, "other", 1);
  EXPECT_FALSE(RowOf("w").for_want_of_ranks());
  EXPECT_FALSE(RowOf("v").for_want_of_ranks());
}

TEST_P(PartialRowsTest, LargestWorldIsAFewRanges) {
  SetWorlds(1 << 20, 1 << 20);
  Record(golden_, "op", 0);
  Record(golden_, "op", 7);
  Record(target_, "op", 0);
  RowOf("op");
  EXPECT_EQ(comparison_.pass_count(), 1);
  EXPECT_EQ(comparison_.for_want_of_ranks_count(), 1);
  plan_.selector.ranks = {0, 7};
  RowOf("op");
  EXPECT_EQ(comparison_.for_want_of_ranks_count(), 1);
}

TEST_P(PartialRowsTest, RunThatEndedBeforeIsNamed) {
  for (int64_t token = 0; token < 4; ++token) {
    for (RunRecorder* run : {&golden_, &target_}) {
      RecordedTensor tensor = Floats("op" + std::to_string(token), {1});
      tensor.token = token;
      if (run == &golden_ || token < 2) run->Record(tensor);
    }
  }
  EXPECT_EQ(RowOf("op2").reason(),
            "only in run g; run t ends there with token 1");
  // The last token counts even if it is not requested.
  plan_.selector.tokens = {{2, 2}};
  EXPECT_EQ(RowOf("op2").reason(),
            "only in run g; run t ends there with token 1");
}

// A comparison of some ranks gives the same rows for them as a comparison of
// all ranks.
TEST_P(PartialRowsTest, RowSaysTheSameWhicheverRanksAreAskedFor) {
  SetWorlds(4, 4);
  for (const int32_t rank : {0, 1, 2, 3}) {
    Record(golden_, "op" + std::to_string(rank), rank, {1, 2});
  }
  Record(target_, "op0", 0, {1});
  const std::string lacking = RowOf("op2").reason();
  EXPECT_EQ(lacking, "only in run g; run t lacks ranks 1-3");
  plan_.selector.ranks = {2};
  EXPECT_EQ(RowOf("op2").reason(), lacking);
}

TEST_P(PartialRowsTest, HintSaysTheSameWhicheverRanksAreAskedFor) {
  for (const int32_t rank : {0, 1, 2, 3}) {
    Record(golden_, "op", rank, {1, 2, 3, 4});
    Record(target_, "op", rank, {1});
  }
  const std::string hint = RowOf("op").layout_hint();
  EXPECT_EQ(hint, "--target-layout 'op@output/0=concat(-1)'");
  plan_.selector.ranks = {0};
  EXPECT_EQ(RowOf("op").layout_hint(), hint);
}

// Partial results that a layout declares to be copies.
TEST_P(PartialRowsTest, TermsThatAreTakenForCopiesSuggestASum) {
  SetWorlds(1, 2);
  AddLayout(false, "*", v1::Layout::REPLICATED);
  Record(golden_, "down", 0, {3, 5, -1});
  Record(golden_, "norm", 0, {3, 5, -1});
  for (const int32_t rank : {0, 1}) {
    const auto part = static_cast<float>(rank);
    Record(target_, "down", rank, {2 - part, 4 - part * 3, part * -1});
    Record(target_, "norm", rank, {3, 5 + part, -1});
  }
  v1::ComparisonRow row = RowOf("down");
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.layout_hint(), "--target-layout 'down@output/0=sum'");
  EXPECT_THAT(row.reason(), HasSubstr("they add up to the other side"));
  EXPECT_THAT(row.reason(), HasSubstr("no longer checks that the ranks agree"));
  EXPECT_EQ(row.origin(), v1::ORIGIN_UNSPECIFIED);
  EXPECT_EQ(comparison_.layout_hint_row_count(), 1);
  EXPECT_EQ(comparison_.layout_hints(0), row.layout_hint());
  row = RowOf("norm");
  EXPECT_EQ(row.layout_hint(), "");
  EXPECT_THAT(row.reason(), HasSubstr("rank 1 has other bytes than rank 0"));
}

// Gradients that were not reduced also add up to the golden gradient.
TEST_P(PartialRowsTest, NoSumIsSuggestedForWhatRanksMustAgreeOn) {
  SetWorlds(1, 2);
  AddLayout(false, "*", v1::Layout::REPLICATED);
  for (const Io io : {Io::kWeight, Io::kState, Io::kGradWeight}) {
    const std::string op = "norm" + std::to_string(static_cast<int>(io));
    Record(golden_, op, 0, {3, 5, -1}, "", "cpu:0", io);
    Record(target_, op, 0, {2, 4, 0}, "", "cpu:0", io);
    Record(target_, op, 1, {1, 1, -1}, "", "cpu:0", io);
    const v1::ComparisonRow row = RowOf(op);
    EXPECT_EQ(row.verdict(), v1::FAIL);
    EXPECT_THAT(row.reason(), HasSubstr("rank 1 has other bytes than rank 0"));
    EXPECT_EQ(row.layout_hint().empty(), io != Io::kGradWeight) << row.reason();
  }
}

TEST_P(PartialRowsTest, CopyThatARankDoesNotHaveIsTold) {
  SetWorlds(1, 2);
  Record(golden_, "w", 0, {1, 2});
  Record(golden_, "norm", 0, {3});
  for (const int32_t rank : {0, 1}) {
    Record(target_, "w", rank, {1.0F + static_cast<float>(rank)}, "0+2/1:S(0)");
  }
  Record(target_, "norm", 0, {3});
  v1::ComparisonRow row = RowOf("norm");
  EXPECT_EQ(row.verdict(), v1::PASS);
  EXPECT_EQ(row.reason(), "target copies on 1 of 2 ranks");
  Record(target_, "norm", 1, {3});
  EXPECT_EQ(RowOf("norm").reason(), "");
}

}  // namespace
}  // namespace msitd::compare
