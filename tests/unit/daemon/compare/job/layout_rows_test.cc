// SPDX-License-Identifier: Apache-2.0
// Tests of rows in which ranks hold shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/chunk/chunk_format.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"
#include "tests/support/named_runs.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

class LayoutRowsTest : public testing::EitherStoreTest {
 protected:
  static RecordedTensor Shard(const std::vector<float>& values,
                              std::vector<int64_t> shape, int32_t rank,
                              std::string op = "op") {
    RecordedTensor out = Floats(op, values);
    out.shape = std::move(shape);
    out.rank = rank;
    return out;
  }

  v1::Layout& Add(bool golden, std::string pattern, v1::Layout::Kind kind,
                  int dim = 0) {
    v1::Layout& layout = golden ? *matching_.add_golden_layouts()
                                : *matching_.add_target_layouts();
    layout.set_op_pattern(std::move(pattern));
    layout.set_kind(kind);
    layout.set_dim(dim);
    return layout;
  }

  std::vector<v1::ComparisonRow> Rows() {
    plan_.matching = *MatchRules::Create(matching_);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    read_bytes_ = observer.read_bytes;
    comparison_ = observer.comparison;
    return observer.rows;
  }

  // Records a 2x4 matrix in the golden run, and its halves in the target run.
  void RecordColumns() {
    golden_.Record(Shard({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, 0));
    target_.Record(Shard({1, 2, 5, 6}, {2, 2}, 0));
    target_.Record(Shard({3, 4, 7, 8}, {2, 2}, 1));
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  testing::NamedRuns runs_{store_.readers()};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  uint64_t read_bytes_ = 0;
  v1::Comparison comparison_;
  int hint_count_ = 0;
};

MSITD_ON_BOTH_STORES(LayoutRowsTest);

TEST_P(LayoutRowsTest, ShardsAreComparedWithTheWhole) {
  RecordColumns();
  Add(false, "op", v1::Layout::CONCAT, -1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].rank(), 0);
  EXPECT_THAT(rows[0].target().ranks(), ElementsAre(0, 1));
  EXPECT_EQ(rows[0].target().layout(), "concat(-1)");
  EXPECT_THAT(rows[0].target().shape(), ElementsAre(2, 4));
  EXPECT_EQ(rows[0].target().max(), 8);
  EXPECT_EQ(rows[0].target().hash(), "");
  EXPECT_THAT(rows[0].golden().ranks(), SizeIs(0));
}

// Each of two ranks has two query heads, one key head and one value head.
TEST_P(LayoutRowsTest, FusedProjectionsAreJoinedSectionBySection) {
  golden_.Record(Shard({0, 1, 2, 3, 10, 11, 20, 21, 4, 5, 6, 7, 12, 13, 22, 23},
                       {2, 8}, 0));
  target_.Record(Shard({0, 1, 10, 20, 4, 5, 12, 22}, {2, 4}, 0));
  target_.Record(Shard({2, 3, 11, 21, 6, 7, 13, 23}, {2, 4}, 1));
  v1::Layout& layout = Add(false, "op", v1::Layout::CONCAT, -1);
  for (const int section : {2, 1, 1}) layout.add_sections(section);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_GT(read_bytes_, 0u);
  EXPECT_EQ(rows[0].target().layout(), "concat(-1,2:1:1)");
  EXPECT_THAT(rows[0].target().shape(), ElementsAre(2, 8));
}

TEST_P(LayoutRowsTest, SectionsOfTheFirstDimensionMayBeOfAnyLength) {
  golden_.Record(Shard({0, 1, 2, 3, 4, 5}, {6, 1}, 0));
  target_.Record(Shard({0, 1, 3, 4}, {4, 1}, 0));
  target_.Record(Shard({2, 5.5F}, {2, 1}, 1));
  v1::Layout& layout = Add(false, "op", v1::Layout::CONCAT, 0);
  for (const int section : {32, 32}) layout.add_sections(section);
  auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("rank 0 has shape [4,1]: 4 is no "
                                          "multiple of the 64"));
  matching_.mutable_target_layouts(0)->clear_sections();
  for (const int section : {1, 1}) layout.add_sections(section);
  rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("at [5,0]: target 5.5, golden 5"));
}

TEST_P(LayoutRowsTest, TheRankOfTheLargestDifferenceIsNamed) {
  golden_.Record(Shard({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, 0));
  target_.Record(Shard({1, 2, 5, 6}, {2, 2}, 0));
  target_.Record(Shard({3, 4, 9.5F, 8}, {2, 2}, 1));
  Add(false, "op", v1::Layout::CONCAT, -1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(
      rows[0].reason(),
      HasSubstr("at [1,2]: target 9.5, golden 7, in the shard of target "
                "rank 1"));
}

RecordedTensor Integer(int64_t value, int32_t rank) {
  RecordedTensor out;
  out.dtype = DType::kInt64;
  out.shape = {1};
  out.bytes.assign(reinterpret_cast<const char*>(&value), sizeof(value));
  out.rank = rank;
  return out;
}

TEST_P(LayoutRowsTest, SumsOfIntegersAreComparedExactly) {
  constexpr int64_t kBig = int64_t{1} << 53;
  for (int64_t token = 0; token < 3; ++token) {
    RecordedTensor golden = Integer(kBig + (token == 0 ? 1 : 0), 0);
    RecordedTensor first = Integer(token == 2 ? INT64_MAX : kBig, 0);
    RecordedTensor second = Integer(1, 1);
    golden.token = first.token = second.token = token;
    golden_.Record(golden);
    target_.Record(first);
    target_.Record(second);
  }
  Add(false, "op", v1::Layout::SUM, 0);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_THAT(rows[1].reason(), HasSubstr("target 9007199254740993, golden "
                                          "9007199254740992"));
  EXPECT_NE(rows[2].verdict(), v1::PASS);
  EXPECT_THAT(rows[2].reason(), HasSubstr("the sum of its shards is beyond "
                                          "int64 at element 0"));
}

TEST_P(LayoutRowsTest, ZigzagSequencesAreUnfolded) {
  golden_.Record(Shard({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 12}, 0));
  target_.Record(Shard({0, 1, 10, 11}, {1, 4}, 0));
  target_.Record(Shard({2, 3, 8, 9}, {1, 4}, 1));
  target_.Record(Shard({4, 5, 6, 7}, {1, 4}, 2));
  Add(false, "op", v1::Layout::ZIGZAG, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().layout(), "zigzag(1)");
}

TEST_P(LayoutRowsTest, SamplesOfSectionsAreThoseOfTheWhole) {
  const auto sampled = [](RecordedTensor tensor) {
    tensor.chunk_flags = chunk::kSampleFlag;
    return tensor;
  };
  golden_.Record(sampled(Shard({0, 1, 2, 3, 4, 5, 6, 7}, {8}, 0)));
  target_.Record(sampled(Shard({0, 1, 6, 7}, {4}, 0)));
  target_.Record(sampled(Shard({2, 3, 4, 5.5F}, {4}, 1)));
  Add(false, "op", v1::Layout::ZIGZAG, 0);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].sampled());
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("at [5]: target 5.5, golden 5"));
}

TEST_P(LayoutRowsTest, EqualShardsOfOtherSectionsAreRead) {
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1, 2}, {2}, rank));
    target_.Record(Shard({1, 2}, {2}, rank));
  }
  Add(true, "op", v1::Layout::CONCAT, 0);
  Add(false, "op", v1::Layout::ZIGZAG, 0);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL) << "1 2 1 2 against 1 1 2 2";
}

TEST_P(LayoutRowsTest, ShapesOfPiecesSuggestALayout) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 4).ok());
  const auto hint_of = [this](std::vector<int64_t> golden,
                              std::vector<int64_t> target) {
    const std::string op = "op" + std::to_string(hint_count_++);
    const auto floats = [](const std::vector<int64_t>& shape) {
      size_t count = 1;
      for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
      return std::vector<float>(count, 1);
    };
    golden_.Record(Shard(floats(golden), golden, 0, op));
    target_.Record(Shard(floats(target), target, 0, op));
    for (const v1::ComparisonRow& row : Rows()) {
      if (row.op() != op) continue;
      EXPECT_EQ(row.verdict(), v1::FAIL);
      const bool is_said =
          row.reason().find("if ranks hold pieces") != std::string::npos;
      EXPECT_EQ(is_said, !row.layout_hint().empty()) << row.reason();
      return row.layout_hint();
    }
    return std::string("no row");
  };
  EXPECT_EQ(hint_of({2, 8}, {2, 2}),
            "--target-layout 'op0@output/0=concat(-1)'");
  EXPECT_EQ(hint_of({8, 3}, {2, 3}),
            "--target-layout 'op1@output/0=concat(0)'");
  EXPECT_EQ(hint_of({4, 3}, {2, 3}),
            "--target-layout 'op2@output/0=concat(0)/2'");
  EXPECT_EQ(hint_of({6, 3}, {2, 3}), "") << "3 groups of 4 ranks";
  EXPECT_EQ(hint_of({8, 4}, {2, 2}), "") << "two dimensions";
  EXPECT_EQ(hint_of({2, 2}, {2, 8}), "") << "the golden run has one rank";
  EXPECT_EQ(hint_of({8}, {2, 4}), "");
  EXPECT_EQ(hint_of({0, 3}, {2, 3}), "") << "nothing is not made of pieces";
  EXPECT_EQ(hint_of({2, 3}, {0, 3}), "");
}

TEST_P(LayoutRowsTest, TheSuggestedLayoutIsTaken) {
  ASSERT_TRUE(store_.runs().SetWorldSize("g", 1).ok());
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  RecordColumns();
  auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].layout_hint(), "--target-layout 'op@output/0=concat(-1)'");
  v1::Layout& layout = Add(false, "op", v1::Layout::CONCAT, -1);
  layout.set_io(v1::IO_OUTPUT);
  layout.set_index("0");
  rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].layout_hint(), "");
}

TEST_P(LayoutRowsTest, TheGoldenRunMayBeTheShardedOne) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  golden_.Record(Shard({3}, {1}, 1));
  target_.Record(Shard({1, 2, 3.5F}, {3}, 0));
  Add(true, "op", v1::Layout::CONCAT);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("at [2]: target 3.5, golden 3"));
}

TEST_P(LayoutRowsTest, BothMayBeShardedInOtherWays) {
  golden_.Record(Shard({1, 2, 3, 4}, {1, 4}, 0));
  golden_.Record(Shard({5, 6, 7, 8}, {1, 4}, 1));
  for (int rank = 0; rank < 4; ++rank) {
    const auto base = static_cast<float>(rank);
    target_.Record(Shard({base + 1, base + 5}, {2, 1}, rank));
  }
  Add(true, "op", v1::Layout::CONCAT, 0);
  Add(false, "op", v1::Layout::CONCAT, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_GT(read_bytes_, 0u);
}

TEST_P(LayoutRowsTest, EqualShardsOfEqualLayoutsAreNotRead) {
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1, 2}, {1, 2}, rank));
    target_.Record(Shard({1, 2}, {1, 2}, rank));
  }
  Add(true, "op", v1::Layout::CONCAT, 1);
  Add(false, "op", v1::Layout::CONCAT, -1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].bitwise_equal());
  EXPECT_EQ(read_bytes_, 0u);
}

TEST_P(LayoutRowsTest, PartialSumsAreAdded) {
  golden_.Record(Shard({3, 5}, {2}, 0));
  target_.Record(Shard({1, 2}, {2}, 0));
  target_.Record(Shard({2, 3}, {2}, 1));
  Add(false, "op", v1::Layout::SUM);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().max(), 5);
}

TEST_P(LayoutRowsTest, EqualPartialSumsAreReadForTheirSummary) {
  for (const int rank : {0, 1}) {
    golden_.Record(Shard({1, -2}, {2}, rank));
    target_.Record(Shard({1, -2}, {2}, rank));
  }
  Add(true, "op", v1::Layout::SUM);
  Add(false, "op", v1::Layout::SUM);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].golden().min(), -4);
}

TEST_P(LayoutRowsTest, AReplicaThatDiffersFailsEvenIfTheFirstIsRight) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  for (const int rank : {0, 1, 2}) {
    target_.Record(Shard({1, rank == 1 ? 3.F : 2.F}, {2}, rank));
  }
  Add(false, "*", v1::Layout::REPLICATED);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(),
              HasSubstr("target replicated of ranks 0-2: rank 1 has other "
                        "bytes than rank 0"));
  EXPECT_THAT(rows[0].target().ranks(), ElementsAre(0, 1, 2));
}

TEST_P(LayoutRowsTest, EqualReplicasAreOneTensor) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  for (const int rank : {0, 1}) target_.Record(Shard({1, 2}, {2}, rank));
  Add(false, "*", v1::Layout::REPLICATED);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].bitwise_equal());
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
}

TEST_P(LayoutRowsTest, PickTakesOneRankOfEachGroup) {
  for (const int place : {0, 1}) {
    golden_.Record(Shard({static_cast<float>(place)}, {1}, place));
  }
  for (int rank = 0; rank < 4; ++rank) {
    const float value = rank % 2 == 1 ? static_cast<float>(rank / 2) : 99;
    target_.Record(Shard({value}, {1}, rank));
  }
  v1::Layout& layout = Add(false, "op", v1::Layout::PICK);
  layout.set_rank(1);
  layout.set_group_size(2);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  for (const int place : {0, 1}) {
    EXPECT_EQ(rows[place].verdict(), v1::PASS) << rows[place].reason();
    EXPECT_EQ(rows[place].rank(), place);
    EXPECT_THAT(rows[place].target().ranks(), ElementsAre(2 * place + 1));
  }
}

TEST_P(LayoutRowsTest, TheFilterSelectsGroups) {
  for (int rank = 0; rank < 4; ++rank) {
    golden_.Record(Shard({1}, {1}, rank));
    target_.Record(Shard({1}, {1}, rank));
  }
  Add(true, "op", v1::Layout::CONCAT).set_group_size(2);
  Add(false, "op", v1::Layout::CONCAT).set_group_size(2);
  plan_.selector.ranks = {1};
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0].golden().ranks(), ElementsAre(2, 3));
}

TEST_P(LayoutRowsTest, MissingShardsAreNamedAndTheRestIsCompared) {
  golden_.Record(Shard({1, 2, 3}, {3}, 0));
  target_.Record(Shard({1}, {1}, 0));
  target_.Record(Shard({3}, {1}, 2));
  golden_.Record(Shard({7}, {1}, 0, "other"));
  for (const int rank : {0, 1, 2}) {
    target_.Record(Shard({7}, {1}, rank, "other"));
  }
  Add(false, "op", v1::Layout::CONCAT);
  Add(false, "*", v1::Layout::REPLICATED);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::UNMATCHED);
  EXPECT_EQ(rows[0].reason(),
            "target concat(0) of ranks 0,2: rank 1 has no such tensor");
  EXPECT_EQ(rows[1].verdict(), v1::PASS) << rows[1].reason();
}

TEST_P(LayoutRowsTest, ARankThatTheWorldSizeSaysIsMissingEvenIfItSentNothing) {
  RecordColumns();
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 4).ok());
  Add(false, "op", v1::Layout::CONCAT, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0].reason(), HasSubstr("ranks 2-3 have no such tensor"));
}

TEST_P(LayoutRowsTest, PickOfARankWithoutTheTensorIsUnmatched) {
  RecordColumns();
  Add(false, "op", v1::Layout::PICK).set_rank(7);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows[0].reason(),
              HasSubstr("rank 7 has no such tensor, ranks 0-1 have"));
}

TEST_P(LayoutRowsTest, OverlappingShardsAreNamed) {
  RecordColumns();
  RecordedTensor second = Shard({3, 4, 7, 8}, {2, 2}, 1);
  second.device = "cpu:1";
  target_.Record(second);
  Add(false, "op", v1::Layout::CONCAT, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows[0].reason(),
              HasSubstr("shards overlap: rank 1 has one on cpu:0 and one on "
                        "cpu:1"));
}

TEST_P(LayoutRowsTest, ShardsThatDoNotGoTogetherAreSkippedWithTheReason) {
  const auto record = [this](std::string op, RecordedTensor a,
                             RecordedTensor b) {
    golden_.Record(Shard({1}, {1}, 0, op));
    a.op = b.op = op;
    target_.Record(a);
    target_.Record(b);
  };
  record("dims", Shard({1, 2}, {1, 2}, 0), Shard({1}, {1, 1}, 1));
  RecordedTensor half = Bfloats("", {1});
  half.rank = 1;
  record("types", Shard({1}, {1}, 0), half);
  record("scalar", Shard({1}, {}, 0), Shard({1}, {}, 1));
  Add(false, "*", v1::Layout::CONCAT);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_THAT(rows[0].reason(),
              HasSubstr("rank 0 has shape [1,2], rank 1 has [1,1]"));
  EXPECT_THAT(rows[1].reason(),
              HasSubstr("rank 0 has float32, rank 1 has bfloat16"));
  EXPECT_THAT(rows[2].reason(), HasSubstr("shape [] has no dimension 0"));
  for (const v1::ComparisonRow& row : rows) {
    EXPECT_EQ(row.verdict(), v1::FAIL);
  }
  // An impossible layout is a mistake of its author, so no maker is reported.
  EXPECT_EQ(comparison_.makers_size(), 0);
}

TEST_P(LayoutRowsTest, AWrongLayoutShowsInTheShapes) {
  golden_.Record(Shard({1, 2}, {2}, 0));
  for (const int rank : {0, 1}) target_.Record(Shard({1, 2}, {2}, rank));
  Add(false, "op", v1::Layout::CONCAT);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_EQ(
      rows[0].reason(),
      "shape: target [4], golden [2]; target is concat(0) of ranks 0-1, the "
      "first with [2], which alone has the shape of the other side");
}

TEST_P(LayoutRowsTest, ACorruptShardSkipsItsRowAndIsNamed) {
  if (either_.fake() == nullptr) GTEST_SKIP() << "made bad by the fake alone";
  RecordColumns();
  RecordedTensor corrupt = Shard({3, 4, 7, 8}, {2, 2}, 1);
  either_.fake()->Corrupt(target_.KeyOf(corrupt), 0);
  Add(false, "op", v1::Layout::CONCAT, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::SKIPPED);
  EXPECT_THAT(rows[0].reason(), HasSubstr("target tensor, rank 1: "));
}

TEST_P(LayoutRowsTest, ATokenIsCompleteOnceAllRanksOfItsGroupWentOn) {
  const auto record = [](RunRecorder& run, int32_t rank, int64_t token) {
    RecordedTensor tensor = Shard({1}, {1}, rank);
    tensor.token = token;
    run.Record(tensor);
  };
  Add(false, "*", v1::Layout::REPLICATED);
  const MatchRules matching = *MatchRules::Create(matching_);
  const auto is_complete = [&](bool target_sealed) {
    const auto matcher = GroupMatcher::Create(**runs_.Open("g"),
                                              **runs_.Open("t"), {}, matching);
    EXPECT_TRUE(matcher.ok()) << matcher.status();
    return matcher->IsComplete({0, 0}, {false}, {target_sealed});
  };
  for (const int64_t token : {0, 1}) {
    record(golden_, 0, token);
    record(target_, 0, token);
  }
  EXPECT_TRUE(is_complete(false));
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 2).ok());
  EXPECT_FALSE(is_complete(false)) << "rank 1 has nothing yet";
  record(target_, 1, 0);
  EXPECT_FALSE(is_complete(false));
  EXPECT_TRUE(is_complete(true));
  record(target_, 1, 1);
  EXPECT_TRUE(is_complete(false));
}

TEST_P(LayoutRowsTest, AGroupIsCompleteWithoutGroupsAndRanksThatCannotBe) {
  const auto record = [](RunRecorder& run, int32_t rank, int64_t token) {
    RecordedTensor tensor = Shard({1}, {1}, rank);
    tensor.token = token;
    run.Record(tensor);
  };
  for (const int64_t token : {0, 1}) {
    for (int rank = 0; rank < 4; ++rank) record(golden_, rank, token);
    // Rank 0 does not reach token 1.
    for (int rank = token == 0 ? 0 : 1; rank < 4; ++rank) {
      record(target_, rank, token);
    }
  }
  ASSERT_TRUE(store_.runs().SetWorldSize("t", 4).ok());
  Add(false, "a", v1::Layout::SUM).set_group_size(2);
  v1::Layout& pick = Add(false, "*", v1::Layout::PICK);
  pick.set_group_size(2);
  pick.set_rank(1);
  const auto matcher = GroupMatcher::Create(
      **runs_.Open("g"), **runs_.Open("t"), {}, *MatchRules::Create(matching_));
  ASSERT_TRUE(matcher.ok()) << matcher.status();
  std::vector<std::pair<int, bool>> complete;
  GroupCursor keys(matcher->groups());
  for (auto key = keys.Next(); key.has_value() && key->token == 0;
       key = keys.Next()) {
    complete.emplace_back(key->rank,
                          matcher->IsComplete(*key, {true}, {false}));
  }
  EXPECT_THAT(complete, ElementsAre(Pair(0, false), Pair(1, true),
                                    Pair(2, false), Pair(3, false)))
      << "ranks 0 and 1 are added up, ranks 2 and 3 of golden have no group";
  matching_.mutable_target_layouts()->DeleteSubrange(0, 1);
  const auto picked = GroupMatcher::Create(**runs_.Open("g"), **runs_.Open("t"),
                                           {}, *MatchRules::Create(matching_));
  EXPECT_TRUE(picked->IsComplete({0, 0}, {true}, {false}))
      << "rank 0 is not picked";
}

TEST_P(LayoutRowsTest, ShardsHaveTheirWholeOnAnyDevice) {
  for (const bool golden_is_sharded : {false, true}) {
    SCOPED_TRACE(golden_is_sharded);
    RunRecorder& whole = golden_is_sharded ? target_ : golden_;
    RunRecorder& sharded = golden_is_sharded ? golden_ : target_;
    const int64_t token = golden_is_sharded ? 1 : 0;
    for (const char* device : {"cpu:0", "cpu:1"}) {
      RecordedTensor tensor =
          Shard({1, 2}, {2}, 0, std::string("on ") + device);
      tensor.device = device;
      tensor.token = token;
      whole.Record(tensor);
      for (const int32_t rank : {0, 1}) {
        RecordedTensor shard = Shard({1.F + rank}, {1}, rank, tensor.op);
        shard.token = token;
        sharded.Record(shard);
      }
    }
    matching_.Clear();
    Add(golden_is_sharded, "*", v1::Layout::CONCAT);
    plan_.selector.tokens = {{token, token}};
    const auto rows = Rows();
    ASSERT_THAT(rows, SizeIs(2));
    for (const v1::ComparisonRow& row : rows) {
      EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
    }
  }
}

TEST_P(LayoutRowsTest, NoLengthOfShardsWithoutElementsIsTooMuch) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  golden_.Record(Shard({}, {0, 1}, 0));
  for (const int32_t rank : {0, 1}) {
    target_.Record(Shard({}, {0, kHuge}, rank));
  }
  Add(false, "op", v1::Layout::CONCAT, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("dimension 1 is longer"));
}

TEST_P(LayoutRowsTest, ASumThatWasNotReadDoesNotSayWhoTurnsNonFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const int32_t rank : {0, 1}) golden_.Record(Shard({kNan}, {1}, rank));
  target_.Record(Shard({kNan, kNan}, {2}, 0));
  Add(true, "op", v1::Layout::SUM);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0].reason(), HasSubstr("shape: target [2], golden [1]"));
  EXPECT_FALSE(rows[0].golden().has_nan_count());
  EXPECT_FALSE(comparison_.has_first_non_finite());
}

TEST_P(LayoutRowsTest, ShardsAmissDoNotSayWhoTurnsNonFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  golden_.Record(Shard({1}, {1}, 0));
  golden_.Record(Shard({kNan}, {1}, 2));
  target_.Record(Shard({1, 1, kNan}, {3}, 0));
  Add(true, "op", v1::Layout::CONCAT);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::UNMATCHED);
  EXPECT_FALSE(rows[0].golden().has_max());
  EXPECT_FALSE(comparison_.has_first_non_finite());
}

TEST_P(LayoutRowsTest, OpsWithoutALayoutAreComparedRankByRank) {
  RecordColumns();
  golden_.Record(Shard({1}, {1}, 0, "plain"));
  target_.Record(Shard({1}, {1}, 0, "plain"));
  target_.Record(Shard({1}, {1}, 1, "plain"));
  Add(false, "op", v1::Layout::CONCAT, 1);
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[1].verdict(), v1::PASS);
  EXPECT_EQ(rows[2].verdict(), v1::UNMATCHED);
  EXPECT_EQ(rows[2].rank(), 1);
}

// Copies that differ prove a failure, with or without a counterpart.
TEST_P(LayoutRowsTest, CopiesWithoutACounterpartFailIfTheyDiffer) {
  Add(true, "*", v1::Layout::REPLICATED);
  Add(false, "*", v1::Layout::REPLICATED);
  for (const int32_t rank : {0, 1}) {
    golden_.Record(Shard({1}, {}, rank, "shared"));
    target_.Record(Shard({1}, {}, rank, "shared"));
  }
  plan_.policy =
      *Policy::Create(PolicySpec{.rules = {}, .allow_unmatched = {"extra*"}});
  for (RunRecorder* run : {&golden_, &target_}) {
    for (const int32_t rank : {0, 1}) {
      run->Record(Shard({1.0F + static_cast<float>(rank)}, {}, rank,
                        run == &golden_ ? "extra" : "extra of target"));
    }
  }
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
  for (const int i : {1, 2}) {
    EXPECT_EQ(rows[i].verdict(), v1::FAIL);
    EXPECT_THAT(rows[i].reason(), HasSubstr("rank 1 has other bytes"));
    EXPECT_THAT(rows[i].reason(), HasSubstr("only in run"));
    EXPECT_EQ(rows[i].origin(), v1::ORIGIN_UNSPECIFIED);
  }
  EXPECT_EQ(comparison_.makers_size(), 0);
}

}  // namespace
}  // namespace msitd::compare
