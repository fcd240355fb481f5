// SPDX-License-Identifier: Apache-2.0
// Tests of rows in which shards have placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class PlacementRowsTest : public testing::EitherStoreTest {
 protected:
  static RecordedTensor Shard(const std::vector<float>& values,
                              std::vector<int64_t> shape, int32_t rank,
                              std::string placement, std::string op = "op") {
    RecordedTensor out = Floats(op, values);
    out.shape = std::move(shape);
    out.rank = rank;
    out.device = "cuda:" + std::to_string(rank);
    out.placement = std::move(placement);
    return out;
  }

  absl::Status Run() {
    plan_.matching = *MatchRules::Create(matching_);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    rows_ = std::move(observer.rows);
    read_bytes_ = observer.read_bytes;
    return status;
  }

  std::vector<v1::ComparisonRow> Rows() {
    const absl::Status status = Run();
    EXPECT_TRUE(status.ok()) << status;
    return rows_;
  }

  // Returns the only row.
  v1::ComparisonRow Row() {
    const auto rows = Rows();
    EXPECT_THAT(rows, SizeIs(1));
    return rows.empty() ? v1::ComparisonRow() : rows[0];
  }

  // Records the values 1 to 8 in two rows, on one rank.
  void RecordWhole(RunRecorder& run) {
    run.Record(Shard({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, 0, ""));
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  std::vector<v1::ComparisonRow> rows_;
  uint64_t read_bytes_ = 0;
};

MSITD_ON_BOTH_STORES(PlacementRowsTest);

TEST_P(PlacementRowsTest, ShardsAreComparedWithTheWhole) {
  RecordWhole(golden_);
  target_.Record(Shard({1, 2, 5, 6}, {2, 2}, 0, "0+2/1:S(1)"));
  target_.Record(Shard({3, 4, 7, 8}, {2, 2}, 1, "0+2/1:S(1)"));
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.rank(), 0);
  EXPECT_EQ(row.target().layout(), "concat(1)");
  EXPECT_THAT(row.target().ranks(), ElementsAre(0, 1));
  EXPECT_THAT(row.target().shape(), ElementsAre(2, 4));
  EXPECT_EQ(row.target().max(), 8);
  EXPECT_EQ(row.golden().layout(), "");
}

TEST_P(PlacementRowsTest, EitherSideMayBeShardedInItsOwnWay) {
  golden_.Record(Shard({1, 2, 3, 4}, {1, 4}, 0, "0+2/1:S(0)"));
  golden_.Record(Shard({5, 6, 7, 8}, {1, 4}, 1, "0+2/1:S(0)"));
  for (int rank = 0; rank < 3; ++rank) {
    const auto base = static_cast<float>(rank);
    const std::vector<float> last = {4, 8};
    target_.Record(Shard(rank == 2 ? std::vector<float>{3, 4, 7, 9}
                                   : std::vector<float>{base + 1, base + 5},
                         {2, rank == 2 ? 2 : 1}, rank, "0+3/1:S(1)"));
  }
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("at [1,3]: target 9, golden 8"));
}

TEST_P(PlacementRowsTest, EqualShardsOfEqualPlacementsAreNotRead) {
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1, 2}, {1, 2}, rank, "0+2/1:S(1)"));
    target_.Record(Shard({1, 2}, {1, 2}, rank, "0+2/1:S(1)"));
  }
  EXPECT_TRUE(Row().bitwise_equal());
  EXPECT_EQ(read_bytes_, 0u);
}

TEST_P(PlacementRowsTest, PartialSumsAreAdded) {
  golden_.Record(Shard({3, 5}, {2}, 0, ""));
  target_.Record(Shard({1, 2}, {2}, 0, "0+2/1:P(sum)"));
  target_.Record(Shard({2, 3}, {2}, 1, "0+2/1:P(sum)"));
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.target().layout(), "sum");
  EXPECT_EQ(row.target().max(), 5);
}

TEST_P(PlacementRowsTest, OtherReductionsAreSkippedByName) {
  golden_.Record(Shard({3, 5}, {2}, 0, ""));
  for (const int rank : {0, 1}) {
    target_.Record(Shard({3, 5}, {2}, rank, "0+2/1:P(max)"));
  }
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_THAT(row.reason(), HasSubstr("target max of ranks 0-1: placement "
                                      "0+2/1:P(max): P(max) is not put"));
}

TEST_P(PlacementRowsTest, ReplicasMustBeCopies) {
  golden_.Record(Shard({1, 2}, {2}, 0, "", "same"));
  golden_.Record(Shard({1, 2}, {2}, 0, "", "other"));
  for (const int rank : {0, 1}) {
    target_.Record(Shard({1, 2}, {2}, rank, "0+2/1:R", "same"));
    target_.Record(Shard({1, 2.F + static_cast<float>(rank)}, {2}, rank,
                         "0+2/1:R", "other"));
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_TRUE(rows[0].bitwise_equal());
  EXPECT_EQ(rows[0].target().layout(), "replicated");
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_THAT(rows[1].reason(),
              HasSubstr("rank 1 has other bytes than rank 0"));
}

// Ranks 0 and 1 have the first half, and ranks 2 and 3 the second half.
TEST_P(PlacementRowsTest, CopiesOfShardsAreChecked) {
  RecordWhole(golden_);
  for (const int rank : {0, 1}) {
    target_.Record(Shard({1, 2, 3, 4}, {1, 4}, rank, "0+2x2/2x1:S(0),R"));
    target_.Record(Shard({5, 6, 7, 8}, {1, 4}, rank + 2, "0+2x2/2x1:S(0),R"));
  }
  EXPECT_EQ(Row().verdict(), v1::PASS) << rows_[0].reason();
  EXPECT_THAT(rows_[0].target().ranks(), ElementsAre(0, 1, 2, 3));
  target_.Record(Shard({1}, {1}, 0, "0+2x2/2x1:R,P(sum)", "partial"));
  target_.Record(Shard({2}, {1}, 1, "0+2x2/2x1:R,P(sum)", "partial"));
  target_.Record(Shard({1}, {1}, 2, "0+2x2/2x1:R,P(sum)", "partial"));
  target_.Record(Shard({9}, {1}, 3, "0+2x2/2x1:R,P(sum)", "partial"));
  golden_.Record(Shard({3}, {1}, 0, "", "partial"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_THAT(rows[1].reason(),
              HasSubstr("target sum of ranks 0-3: rank 3 has other bytes than "
                        "rank 1"));
}

TEST_P(PlacementRowsTest, TwoDimensionsOfTheTensorMayBeSharded) {
  RecordWhole(golden_);
  const std::string placement = "0+2x2/2x1:S(0),S(1)";
  target_.Record(Shard({1, 2, 3}, {1, 3}, 0, placement));
  target_.Record(Shard({4}, {1, 1}, 1, placement));
  target_.Record(Shard({5, 6, 7}, {1, 3}, 2, placement));
  target_.Record(Shard({8.5F}, {1, 1}, 3, placement));
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("at [1,3]: target 8.5, golden 8"));
  EXPECT_EQ(row.target().layout(), "concat(0) of concat(1)");
}

TEST_P(PlacementRowsTest, OneDimensionMayBeShardedTwice) {
  RecordWhole(golden_);
  // The second dimension of the mesh splits the tensor first.
  const std::string placement = "0+2x2/1x2:S(1),S(1)";
  for (const int rank : {0, 1, 2, 3}) {
    const auto column = static_cast<float>(rank % 2 * 2 + rank / 2);
    target_.Record(Shard({column + 1, column + 5}, {2, 1}, rank, placement));
  }
  EXPECT_EQ(Row().verdict(), v1::PASS) << rows_[0].reason();
}

TEST_P(PlacementRowsTest, SumsMayBeSharded) {
  RecordWhole(golden_);
  const std::string placement = "0+2x2/2x1:P(sum),S(1)";
  for (const int rank : {0, 1, 2, 3}) {
    const float first = rank % 2 == 0 ? 1 : 3;
    const float share = rank < 2 ? 0.25F : 0.75F;
    target_.Record(Shard({share * first, share * (first + 1),
                          share * (first + 4), share * (first + 5)},
                         {2, 2}, rank, placement));
  }
  EXPECT_EQ(Row().verdict(), v1::PASS) << rows_[0].reason();
  EXPECT_EQ(rows_[0].target().layout(), "sum of concat(1)");
}

TEST_P(PlacementRowsTest, MeshesSideBySideAreComparedByNumber) {
  for (int rank = 0; rank < 2; ++rank) {
    const auto base = static_cast<float>(10 * rank);
    golden_.Record(Shard({base + 1, base + 2}, {2}, rank, ""));
  }
  for (int rank = 0; rank < 4; ++rank) {
    const auto value = static_cast<float>(10 * (rank / 2) + rank % 2 + 1);
    target_.Record(
        Shard({value}, {1}, rank, rank < 2 ? "0+2/1:S(0)" : "2+2/1:S(0)"));
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  for (const int place : {0, 1}) {
    EXPECT_EQ(rows[place].verdict(), v1::PASS) << rows[place].reason();
    EXPECT_EQ(rows[place].rank(), place);
  }
  EXPECT_THAT(rows[1].target().ranks(), ElementsAre(2, 3));
  // A filter by rank refers to these numbers.
  plan_.selector.ranks = {1};
  EXPECT_EQ(Row().rank(), 1);
}

TEST_P(PlacementRowsTest, TensorsWithoutAPlacementStandForThemselves) {
  RecordWhole(golden_);
  golden_.Record(Shard({1}, {1}, 1, "", "own"));
  target_.Record(Shard({1, 2, 3, 4}, {1, 4}, 0, "0+2/1:S(0)"));
  target_.Record(Shard({5, 6, 7, 8}, {1, 4}, 1, "0+2/1:S(0)"));
  target_.Record(Shard({1}, {1}, 1, "", "own"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[1].verdict(), v1::PASS) << rows[1].reason();
  EXPECT_EQ(rows[1].rank(), 1);
}

TEST_P(PlacementRowsTest, PlainTensorsBesideShardsAreCopies) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  RecordWhole(golden_);
  for (const char* const op : {"same", "other", "first", "last"}) {
    golden_.Record(Shard({1}, {1}, 0, "", op));
  }
  golden_.Record(Shard({1, 2}, {2}, 0, "", "piece"));
  target_.Record(Shard({1, 2, 3, 4}, {1, 4}, 0, "0+2/1:S(0)"));
  target_.Record(Shard({5, 6, 7, 8}, {1, 4}, 1, "0+2/1:S(0)"));
  for (const int rank : {0, 1}) {
    target_.Record(Shard({1}, {1}, rank, "", "same"));
    target_.Record(
        Shard({1 + static_cast<float>(rank)}, {1}, rank, "", "other"));
    target_.Record(Shard({1}, {1}, rank, "", rank == 0 ? "first" : "last"));
    target_.Record(
        Shard({1 + static_cast<float>(rank)}, {1}, rank, "", "piece"));
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(6));
  for (const v1::ComparisonRow& row : rows) {
    EXPECT_EQ(row.rank(), 0);
    const bool fails = row.op() == "other" || row.op() == "piece";
    EXPECT_EQ(row.verdict(), fails ? v1::FAIL : v1::PASS)
        << row.op() << ": " << row.reason();
  }
  EXPECT_THAT(rows[1].target().ranks(), ElementsAre(0, 1));
  EXPECT_THAT(rows[2].reason(),
              HasSubstr("rank 1 has other bytes than rank 0"));
  EXPECT_EQ(rows[5].op(), "piece");
  EXPECT_EQ(rows[5].layout_hint(),
            "--target-layout 'piece@output/0=concat(-1)'");
}

// A piece of a rank that records no placement looks like a copy that differs.
TEST_P(PlacementRowsTest,
       TensorsOfOneRunFailOnlyIfTheirPlacementIsThatOfCopies) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  RecordWhole(golden_);
  target_.Record(Shard({1, 2, 3, 4}, {1, 4}, 0, "0+2/1:S(0)"));
  target_.Record(Shard({5, 6, 7, 8}, {1, 4}, 1, "0+2/1:S(0)"));
  for (const int rank : {0, 1}) {
    const float value = 1 + static_cast<float>(rank);
    target_.Record(Shard({value}, {1}, rank, "", "plain"));
    target_.Record(Shard({value}, {1}, rank, "0+2/1:R", "placed"));
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[1].op(), "plain");
  EXPECT_EQ(rows[1].verdict(), v1::UNMATCHED) << rows[1].reason();
  EXPECT_EQ(rows[2].op(), "placed");
  EXPECT_EQ(rows[2].verdict(), v1::FAIL) << rows[2].reason();
}

TEST_P(PlacementRowsTest, PlainTensorsAreComparedByRankWhereRanksAreAsMany) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 2).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  for (RunRecorder* const run : {&golden_, &target_}) {
    for (const int rank : {0, 1}) {
      run->Record(Shard({1, 2}, {1, 2}, rank, "0+2/1:S(0)"));
      run->Record(Shard({1 + static_cast<float>(rank)}, {1}, rank, "", "own"));
    }
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  for (const v1::ComparisonRow& row : rows) {
    EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  }
}

// Two pairs of ranks have the same shards, but different data.
TEST_P(PlacementRowsTest, PlainTensorsAreCopiesInTheSmallestMesh) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 2).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 4).ok());
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1 + static_cast<float>(rank)}, {1}, rank, "", "own"));
  }
  for (int rank = 0; rank < 4; ++rank) {
    target_.Record(Shard({1, 2}, {1, 2}, rank, "0+2x2/2x1:R,S(0)", "weight"));
    target_.Record(Shard({1, 2}, {1, 2}, rank,
                         rank < 2 ? "0+2/1:S(0)" : "2+2/1:S(0)", "act"));
    target_.Record(
        Shard({1 + static_cast<float>(rank / 2)}, {1}, rank, "", "own"));
  }
  size_t own_count = 0;
  for (const v1::ComparisonRow& row : Rows()) {
    if (row.op() != "own") continue;
    ++own_count;
    EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  }
  EXPECT_EQ(own_count, 2u);
}

TEST_P(PlacementRowsTest, ALayoutMayLeaveOutWhatIsPlaced) {
  RecordWhole(golden_);
  golden_.Record(Shard({1}, {1}, 0, "", "plain"));
  for (const int rank : {0, 1}) {
    const auto base = static_cast<float>(4 * rank);
    target_.Record(Shard({base + 1, base + 2, base + 3, base + 4}, {1, 4}, rank,
                         "0+2/1:S(0)"));
    target_.Record(Shard({1}, {1}, rank, "", "plain"));
  }
  v1::Layout& layout = *matching_.add_target_layouts();
  layout.set_op_pattern("*");
  layout.set_kind(v1::Layout::REPLICATED);
  layout.set_unless_placed(true);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().layout(), "concat(0)");
  EXPECT_EQ(rows[1].verdict(), v1::PASS) << rows[1].reason();
  EXPECT_EQ(rows[1].target().layout(), "replicated");
}

TEST_P(PlacementRowsTest, LayoutsGoBeforePlacements) {
  golden_.Record(Shard({3, 5}, {2}, 0, ""));
  target_.Record(Shard({1, 2}, {2}, 0, "0+2/1:S(0)"));
  target_.Record(Shard({2, 3}, {2}, 1, "0+2/1:S(0)"));
  v1::Layout& layout = *matching_.add_target_layouts();
  layout.set_op_pattern("o*");
  layout.set_kind(v1::Layout::SUM);
  EXPECT_EQ(Row().verdict(), v1::PASS) << rows_[0].reason();
  EXPECT_EQ(rows_[0].target().layout(), "sum");
}

TEST_P(PlacementRowsTest, PlacementsCanBeIgnored) {
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1, 2}, {2}, rank, ""));
    target_.Record(Shard({1, 2}, {2}, rank, "0+2/1:S(0)"));
  }
  matching_.set_ignore_placements(true);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  for (const v1::ComparisonRow& row : rows) {
    EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
    EXPECT_EQ(row.target().layout(), "");
  }
}

TEST_P(PlacementRowsTest, MissingShardsAreNamed) {
  RecordWhole(golden_);
  target_.Record(Shard({1, 2}, {2, 1}, 0, "0+4/1:S(1)"));
  target_.Record(Shard({1, 2}, {2, 1}, 2, "0+4/1:S(1)"));
  EXPECT_EQ(Row().verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows_[0].reason(),
              HasSubstr("target concat(1) of ranks 0,2: ranks 1,3 have no"));
}

TEST_P(PlacementRowsTest, RanksThatTheRunDoesNotHaveAreSaid) {
  RecordWhole(golden_);
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  for (const int rank : {0, 1}) {
    target_.Record(Shard({1, 2}, {2, 1}, rank, "0+4/1:S(1)"));
  }
  EXPECT_EQ(Row().verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows_[0].reason(),
              HasSubstr("placement 0+4/1:S(1) goes to rank 3, the run has 2"));
}

TEST_P(PlacementRowsTest, ARankOutsideItsMeshIsSaidAtItsOwnPlace) {
  golden_.Record(Shard({1}, {1}, 0, ""));
  golden_.Record(Shard({1}, {1}, 5, ""));
  target_.Record(Shard({1}, {1}, 5, "0+2/1:S(0)"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[1].rank(), 5);
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_THAT(rows[1].reason(), HasSubstr("rank 5 is not in the mesh of its "
                                          "own placement 0+2/1:S(0)"));
}

TEST_P(PlacementRowsTest, ARankOutsideItsMeshLeavesThoseInItAlone) {
  golden_.Record(Shard({1, 2}, {2}, 1, ""));
  // The mesh of ranks 2 and 3 has number 1, which is also the number of the
  // rank outside it.
  target_.Record(Shard({1}, {1}, 2, "2+2/1:S(0)"));
  target_.Record(Shard({2}, {1}, 3, "2+2/1:S(0)"));
  target_.Record(Shard({7}, {1}, 1, "2+2/1:S(0)"));
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[1].verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows[1].reason(), HasSubstr("rank 1 is not in the mesh"));
}

TEST_P(PlacementRowsTest, ShardsThatDisagreeFail) {
  RecordWhole(golden_);
  target_.Record(Shard({1, 2}, {2, 1}, 0, "0+2/1:S(1)"));
  target_.Record(Shard({1, 2}, {2, 1}, 1, "0+2/1:S(0)"));
  EXPECT_EQ(Row().verdict(), v1::FAIL);
  EXPECT_THAT(rows_[0].reason(),
              HasSubstr("rank 0 has placement 0+2/1:S(1), rank 1 has "
                        "0+2/1:S(0)"));
}

TEST_P(PlacementRowsTest, ShapesThatDoNotFitAreSaid) {
  for (const std::string op : {"dim", "rest", "whole", "grid"}) {
    golden_.Record(Shard({1, 2, 3, 4}, {2, 2}, 0, "", op));
  }
  for (const int rank : {0, 1}) {
    target_.Record(Shard({1, 2}, {2}, rank, "0+2/1:S(1)", "dim"));
    target_.Record(rank == 0 ? Shard({1, 2}, {1, 2}, 0, "0+2/1:S(0)", "rest")
                             : Shard({3}, {1, 1}, 1, "0+2/1:S(0)", "rest"));
    target_.Record(Shard({1, 2}, {1, 2}, rank, "0+2/1:S(1)", "whole"));
  }
  for (int rank = 0; rank < 4; ++rank) {
    const int64_t columns = rank == 3 ? 2 : 1;
    target_.Record(Shard(std::vector<float>(columns, 1), {1, columns}, rank,
                         "0+2x2/2x1:S(0),S(1)", "grid"));
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("shape [2] has no dimension 1"));
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_THAT(rows[1].reason(),
              HasSubstr("rank 0 has shape [1,2], rank 1 has [1,1]"));
  EXPECT_EQ(rows[2].verdict(), v1::FAIL);
  EXPECT_THAT(
      rows[2].reason(),
      HasSubstr("shape: target [1,4], golden [2,2]; target is concat(1) of "
                "ranks 0-1, the first with [1,2]"));
  EXPECT_EQ(rows[3].verdict(), v1::FAIL);
  EXPECT_THAT(rows[3].reason(),
              HasSubstr("rank 1 has shape [1,1], rank 3 has [1,2]"));
}

TEST_P(PlacementRowsTest, AHugeMeshCostsNoMoreThanItsShards) {
  RecordWhole(golden_);
  target_.Record(Shard({1}, {1}, 0, "0+1048576/1:S(0)"));
  EXPECT_EQ(Row().verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows_[0].reason(),
              HasSubstr("ranks 1-1048575 have no such tensor"));
}

TEST_P(PlacementRowsTest, OfAHugeMeshWithGapsAFewMissingRanksAreNamed) {
  RecordWhole(golden_);
  target_.Record(Shard({1}, {1}, 0, "0+524288/2:S(0)"));
  EXPECT_EQ(Row().verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows_[0].reason(),
              HasSubstr("ranks 2,4,6,8,10,12,14,16,... have no such tensor"));
}

TEST_P(PlacementRowsTest, AFilterByDeviceIsRefused) {
  RecordWhole(golden_);
  target_.Record(Shard({1}, {1}, 0, "0+1/1:R"));
  plan_.selector.devices = {"cuda:0"};
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  matching_.set_ignore_placements(true);
  EXPECT_TRUE(Run().ok());
}

// The tokens of a mesh are compared after all its ranks have completed them.
TEST_P(PlacementRowsTest, FollowingWaitsForTheRanksOfTheMesh) {
  const auto record = [this](int32_t rank, int64_t token) {
    RecordedTensor whole = Shard({1, 2}, {2}, 0, "");
    whole.token = token;
    if (rank == 0) golden_.Record(whole);
    RecordedTensor shard = Shard({rank + 1.F}, {1}, rank, "0+2/1:S(0)");
    shard.token = token;
    target_.Record(shard);
  };
  for (int64_t token = 0; token < 3; ++token) record(0, token);
  plan_.follow = true;
  plan_.matching = *MatchRules::Create(matching_);
  RowObserver observer;
  ComparisonEngine engine(store_.readers(), plan_, observer);
  ASSERT_TRUE(engine.Run().ok());
  EXPECT_THAT(observer.rows, SizeIs(0)) << "rank 1 has sent nothing";
  record(1, 0);
  record(1, 1);
  ASSERT_TRUE(engine.Run().ok());
  EXPECT_THAT(observer.rows, SizeIs(1)) << "token 1 may not be whole";
  record(1, 2);
  ASSERT_TRUE(store_.runs().SealRun("g").ok());
  ASSERT_TRUE(store_.runs().SealRun("t").ok());
  ASSERT_TRUE(engine.Run().ok());
  EXPECT_FALSE(engine.waits());
  ASSERT_THAT(observer.rows, SizeIs(3));
  for (const v1::ComparisonRow& row : observer.rows) {
    EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  }
}

}  // namespace
}  // namespace msitd::compare
