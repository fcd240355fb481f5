// SPDX-License-Identifier: Apache-2.0
// Tests of rows whose shards are joined according to the sizes of tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/either_store.h"
#include "tests/support/named_runs.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Shape = std::vector<int64_t>;

class FittedRowsTest : public testing::EitherStoreTest {
 protected:
  void SetUp() override {
    for (v1::Layout* layout :
         {matching_.add_golden_layouts(), matching_.add_target_layouts()}) {
      layout->set_op_pattern("*");
      layout->set_kind(v1::Layout::FIT);
    }
  }

  static RecordedTensor Shard(const std::vector<float>& values, Shape shape,
                              int32_t rank, std::string op = "op") {
    RecordedTensor out = Floats(std::move(op), values);
    out.shape = std::move(shape);
    out.rank = rank;
    return out;
  }

  v1::ComparisonRow TheRow(int count = 1) {
    plan_.matching = *MatchRules::Create(matching_);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(observer.rows.size(), static_cast<size_t>(count));
    return observer.rows.empty() ? v1::ComparisonRow() : observer.rows.front();
  }

  void SetWorldSizes(int golden, int target) {
    ASSERT_TRUE(store_.runs().SetWorldSize("g", golden).ok());
    ASSERT_TRUE(store_.runs().SetWorldSize("t", target).ok());
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  testing::NamedRuns runs_{store_.readers()};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
};

MSITD_ON_BOTH_STORES(FittedRowsTest);

TEST_P(FittedRowsTest, PiecesAreJoinedWhereTheyAddUp) {
  golden_.Record(Shard({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, 0));
  target_.Record(Shard({1, 2, 5, 6}, {2, 2}, 0));
  target_.Record(Shard({3, 4, 7, 8}, {2, 2}, 1));
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.target().layout(), "concat(1)");
  EXPECT_THAT(row.target().ranks(), ElementsAre(0, 1));
  EXPECT_EQ(row.golden().layout(), "replicated");
}

TEST_P(FittedRowsTest, PiecesMayBeOfDifferentSizes) {
  golden_.Record(Shard({1, 2, 3}, {3}, 0));
  target_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({3}, {1}, 1));
  EXPECT_EQ(TheRow().verdict(), v1::PASS);
}

TEST_P(FittedRowsTest, CopiesHaveTheSizeOfTheWhole) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({1, 3}, {2}, 1));
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("rank 1 has other bytes than rank 0"));
}

TEST_P(FittedRowsTest, BothSidesMayBePieces) {
  golden_.Record(Shard({1, 2, 3, 4}, {1, 4}, 0));
  golden_.Record(Shard({5, 6, 7, 8}, {1, 4}, 1));
  for (int rank = 0; rank < 4; ++rank) {
    const auto base = static_cast<float>(rank);
    target_.Record(Shard({base + 1, base + 5}, {2, 1}, rank));
  }
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.golden().layout(), "concat(0)");
  EXPECT_EQ(row.target().layout(), "concat(1)");
}

TEST_P(FittedRowsTest, PiecesThatAreCutAlikeAreNoCopies) {
  for (const int rank : {0, 1}) {
    const auto base = static_cast<float>(2 * rank);
    golden_.Record(Shard({base, base + 1}, {2, 1}, rank));
    target_.Record(Shard({base, base + 1}, {2, 1}, rank));
  }
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.target().shape(), ElementsAre(4, 1));
}

TEST_P(FittedRowsTest, CopiesOfBothSidesMustAgree) {
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1, 2}, {2}, rank));
    target_.Record(Shard({1, rank == 1 ? 3.F : 2.F}, {2}, rank));
  }
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("target replicated of ranks 0-1"));
}

// Tools add and merge dimensions before the last one.
TEST_P(FittedRowsTest, DimensionsInFrontMayBeMerged) {
  golden_.Record(Shard({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 4}, 0));
  target_.Record(Shard({1, 2, 5, 6}, {2, 2}, 0));
  target_.Record(Shard({3, 4, 7, 8}, {2, 2}, 1));
  PolicySpec spec;
  spec.shape_rule = ShapeRule::kCount;
  plan_.policy = *Policy::Create(spec);
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.target().layout(), "concat(1)");
}

TEST_P(FittedRowsTest, RanksWithoutAPieceAreNoneOfItsRanks) {
  SetWorldSizes(1, 3);
  golden_.Record(Shard({1, 2, 3}, {3}, 0));
  target_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({3}, {1}, 2));
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("target pieces on 2 of 3 ranks"));
  EXPECT_THAT(row.target().ranks(), ElementsAre(0, 2));
}

TEST_P(FittedRowsTest, AMissingPieceIsNamed) {
  SetWorldSizes(1, 3);
  golden_.Record(Shard({1, 2, 3}, {3}, 0));
  for (const int rank : {0, 2}) target_.Record(Shard({1}, {1}, rank));
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::UNMATCHED);
  EXPECT_THAT(row.reason(), HasSubstr("rank 1 has no such tensor"));
}

TEST_P(FittedRowsTest, WhatDoesNotAddUpHasTheReason) {
  golden_.Record(Shard({1, 2, 3, 4, 5}, {5}, 0));
  for (const int rank : {0, 1}) target_.Record(Shard({1, 2}, {2}, rank));
  auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("target is fit of ranks 0-1"));
  EXPECT_THAT(row.target().shape(), ElementsAre(2));
}

TEST_P(FittedRowsTest, AnOddCardIsFoundThoughTheFirstFits) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({1, 2, 3}, {3}, 1));
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("rank 0 has shape [2], rank 1 has [3]"));
}

TEST_P(FittedRowsTest, ACardThatIsThereTwiceIsSaid) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  for (const char* const device : {"npu:0", "npu:1"}) {
    RecordedTensor piece = Shard({1}, {1}, 0);
    piece.device = device;
    target_.Record(piece);
  }
  const auto row = TheRow();
  EXPECT_EQ(row.verdict(), v1::UNMATCHED);
  EXPECT_THAT(row.reason(), HasSubstr("shards overlap"));
}

TEST_P(FittedRowsTest, WhatBelongsToNothingIsUnmatched) {
  golden_.Record(Shard({1}, {1}, 0, "a"));
  for (const int rank : {0, 1}) {
    target_.Record(Shard({static_cast<float>(rank)}, {1}, rank, "b"));
  }
  EXPECT_EQ(TheRow(2).verdict(), v1::UNMATCHED);
}

TEST_P(FittedRowsTest, ScalarsAreCopies) {
  golden_.Record(Shard({1}, {}, 0));
  for (const int rank : {0, 1}) target_.Record(Shard({1}, {}, rank));
  EXPECT_EQ(TheRow().verdict(), v1::PASS);
}

}  // namespace
}  // namespace msitd::compare
