// SPDX-License-Identifier: Apache-2.0
// Tests of pairs whose rows may be in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/view/any_order.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/chunk/chunk_format.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Values = std::vector<float>;

class AnyOrderRowsTest : public testing::EitherStoreTest {
 protected:
  static RecordedTensor Shaped(Values values, std::vector<int64_t> shape) {
    RecordedTensor out = Floats("op", values);
    out.shape = std::move(shape);
    return out;
  }

  void See(bool is_golden, std::string text) {
    v1::View& view = is_golden ? *matching_.add_golden_views()
                               : *matching_.add_target_views();
    view.set_op_pattern("op");
    view.set_view(std::move(text));
  }

  v1::ComparisonRow Row() {
    auto matching = MatchRules::Create(matching_);
    EXPECT_TRUE(matching.ok()) << matching.status();
    plan_.matching = *std::move(matching);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    comparison_ = observer.comparison;
    EXPECT_EQ(observer.rows.size(), 1u);
    return observer.rows.at(0);
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  v1::Comparison comparison_;
};

MSITD_ON_BOTH_STORES(AnyOrderRowsTest);

TEST_P(AnyOrderRowsTest, OneSideWithTheStepIsEnough) {
  golden_.Record(Shaped({1, 2, 3, 4, 5, 6}, {3, 2}));
  target_.Record(Shaped({3, 4, 5, 6, 1, 2}, {3, 2}));
  EXPECT_EQ(Row().verdict(), v1::FAIL);
  for (const bool is_golden : {true, false}) {
    matching_.Clear();
    See(is_golden, "any_order(0)");
    const v1::ComparisonRow row = Row();
    EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
    EXPECT_THAT(row.reason(), HasSubstr("3 of 3 rows are in another place; "));
    EXPECT_THAT(row.reason(), HasSubstr(" view any_order(0)"));
    EXPECT_FALSE(row.bitwise_equal());
    EXPECT_EQ(MetricOf(row, "mismatch_count"), 0);
  }
  See(true, "any_order(-2)");
  EXPECT_EQ(Row().verdict(), v1::PASS);
}

TEST_P(AnyOrderRowsTest, AWrongRowIsNamed) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Values golden(10000 * 4);
  for (float& x : golden) x = normal(random);
  Values target(golden.size());
  for (size_t i = 0; i < 10000; ++i) {
    std::copy_n(&golden[i * 4], 4, &target[(9999 - i) * 4]);
  }
  for (size_t i = 0; i < 4; ++i) target[7 * 4 + i] *= 1.002F;
  golden_.Record(Shaped(golden, {10000, 4}));
  target_.Record(Shaped(target, {10000, 4}));
  See(false, "any_order(0)");
  const v1::ComparisonRow row = Row();
  // The norm of the whole tensor would pass.
  EXPECT_LT(MetricOf(row, "nl2"), 1e-4);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(),
              HasSubstr("1 of 10000 rows has no partner: golden 9992, "
                        "target 7; "));
}

TEST_P(AnyOrderRowsTest, ARowIsNotUsedTwice) {
  golden_.Record(Shaped({1, 2, 1, 2, 5, 6}, {3, 2}));
  target_.Record(Shaped({1, 2, 5, 6, 5, 6}, {3, 2}));
  See(true, "any_order(0)");
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("golden 1, target 2"));
}

TEST_P(AnyOrderRowsTest, ShapesMustAgree) {
  golden_.Record(Shaped({1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped({3, 4, 1, 2, 0, 0}, {3, 2}));
  See(true, "any_order(0)");
  EXPECT_EQ(Row().verdict(), v1::FAIL);
  EXPECT_THAT(Row().reason(), HasSubstr("shape"));
  See(false, "slice(0,:2).any_order(0)");
  EXPECT_EQ(Row().verdict(), v1::PASS) << Row().reason();
}

TEST_P(AnyOrderRowsTest, SidesMustMeanTheSameRows) {
  golden_.Record(Shaped({1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped({3, 4, 1, 2}, {2, 2}));
  See(true, "any_order(0)");
  See(false, "any_order(1)");
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_TRUE(row.not_compared());
  EXPECT_THAT(row.reason(),
              HasSubstr("any_order of golden has 2 rows of 2 elements, that of "
                        "target 2 of 2 in another arrangement"));
}

TEST_P(AnyOrderRowsTest, AnyDimensionAfterOtherSteps) {
  golden_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}));
  target_.Record(Shaped({6, 2, 5, 1, 8, 4, 7, 3}, {4, 2}));
  See(false, "reshape(2,2,2).permute(2,0,1).reshape(2,4).any_order(1)");
  const v1::ComparisonRow moved = Row();
  EXPECT_EQ(moved.verdict(), v1::FAIL);
  matching_.Clear();
  See(false, "transpose(0,1).any_order(0)");
  See(true, "any_order(0)");
  EXPECT_EQ(Row().verdict(), v1::FAIL);
  matching_.Clear();
  // [[6,5,8,7],[2,1,4,3]] against [[1,2,3,4],[5,6,7,8]].
  See(false, "transpose(0,1).reshape(2,4).any_order(0)");
  See(true, "reshape(2,2,2).permute(0,1,2).reshape(2,4)");
  EXPECT_EQ(Row().verdict(), v1::FAIL);
  matching_.Clear();
  See(false, "transpose(0,1).rows(1,0).any_order(1)");
  const v1::ComparisonRow columns = Row();
  EXPECT_EQ(columns.verdict(), v1::PASS) << columns.reason();
  EXPECT_THAT(columns.reason(), HasSubstr("4 of 4 rows are in another place"));
}

TEST_P(AnyOrderRowsTest, AStepThatDoesNotFitIsAReason) {
  golden_.Record(Shaped({1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped({3, 4, 1, 2}, {2, 2}));
  See(false, "any_order(2)");
  EXPECT_EQ(Row().verdict(), v1::SKIPPED);
  EXPECT_THAT(Row().reason(), HasSubstr("it has no dimension 2"));
  matching_.Clear();
  See(false, "any_order(0).flatten");
  EXPECT_THAT(std::string(MatchRules::Create(matching_).status().message()),
              HasSubstr("any_order must be the last step"));
}

TEST_P(AnyOrderRowsTest, EqualBytesAreNotRead) {
  golden_.Record(Shaped({1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped({1, 2, 3, 4}, {2, 2}));
  See(false, "any_order(0)");
  EXPECT_EQ(Row().verdict(), v1::PASS);
  EXPECT_TRUE(Row().bitwise_equal());
}

TEST_P(AnyOrderRowsTest, OnlyEqualBytesMayBeRequired) {
  golden_.Record(Shaped({1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped({3, 4, 1, 2}, {2, 2}));
  See(false, "any_order(0)");
  PolicySpec spec;
  spec.preset = Preset::kBitwise;
  plan_.policy = *Policy::Create(spec);
  EXPECT_EQ(Row().verdict(), v1::PASS) << Row().reason();
  plan_.reading = Reading::kUnproven;
  EXPECT_EQ(Row().verdict(), v1::PASS) << Row().reason();
}

TEST_P(AnyOrderRowsTest, BytesAreNeeded) {
  RecordedTensor golden = Shaped({1, 2, 3, 4}, {2, 2});
  RecordedTensor target = Shaped({3, 4, 1, 2}, {2, 2});
  golden.chunk_flags = chunk::kSummaryOnlyFlag;
  golden_.Record(golden);
  target_.Record(target);
  See(false, "any_order(0)");
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_TRUE(row.not_compared());
  EXPECT_THAT(row.reason(), HasSubstr("the bytes of the golden tensor are not "
                                      "kept, and rows in any order"));
}

TEST_P(AnyOrderRowsTest, StatisticsHaveNoRows) {
  RecordedTensor golden = Shaped({1, 2, 3, 4}, {2, 2});
  RecordedTensor target = golden;
  target.kind = RecordKind::kStatistics;
  target.value = R"({"max":4,"mean":2.5,"min":1})";
  target.bytes.clear();
  golden_.Record(golden);
  target_.Record(target);
  plan_.selector.kinds = {RecordKind::kTensor, RecordKind::kStatistics};
  for (const bool is_golden : {true, false}) {
    matching_.Clear();
    See(is_golden, "any_order(0)");
    const v1::ComparisonRow row = Row();
    EXPECT_EQ(row.verdict(), v1::SKIPPED) << row.reason();
    EXPECT_THAT(row.reason(), HasSubstr("statistics do not have the "));
  }
}

TEST_P(AnyOrderRowsTest, OtherTypesAreComparedWithinTolerance) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  Values golden(50 * 16);
  for (float& x : golden) x = normal(random);
  Values target(golden.size());
  for (size_t i = 0; i < 50; ++i) {
    std::copy_n(&golden[i * 16], 16, &target[(i + 13) % 50 * 16]);
  }
  golden_.Record(Shaped(golden, {50, 16}));
  RecordedTensor narrow = Bfloats("op", target);
  narrow.shape = {50, 16};
  target_.Record(narrow);
  See(false, "any_order(0)");
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_GT(MetricOf(row, "nl2"), 0);
}

TEST_P(AnyOrderRowsTest, AnExplicitToleranceDecides) {
  golden_.Record(Shaped({1, 2, 30, 40}, {2, 2}));
  target_.Record(Shaped({33, 40, 1, 2}, {2, 2}));
  See(false, "any_order(0)");
  EXPECT_EQ(Row().verdict(), v1::FAIL);
  const PolicyRule rule = {"op", "max_abs <= 4"};
  plan_.policy = *Policy::Create({&rule, 1});
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("1 of 2 rows has no partner"));
}

TEST_P(AnyOrderRowsTest, ShardsAreAssembledFirst) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    RecordedTensor shard =
        Shaped(rank == 0 ? Values{5, 6, 1, 2} : Values{3, 4, 7, 8}, {2, 2});
    shard.rank = rank;
    target_.Record(shard);
  }
  golden_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  v1::Layout& layout = *matching_.add_target_layouts();
  layout.set_op_pattern("op");
  layout.set_kind(v1::Layout::CONCAT);
  See(false, "any_order(0)");
  const v1::ComparisonRow row = Row();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_THAT(row.reason(), HasSubstr("3 of 4 rows are in another place"));
}

class SuggestedViewTest : public AnyOrderRowsTest {
 protected:
  // Returns the only flag that a comparison of the runs suggests, or nothing.
  std::string Flag() {
    const v1::ComparisonRow row = Row();
    EXPECT_EQ(row.verdict(), v1::FAIL);
    if (comparison_.view_hints().empty()) return "";
    EXPECT_EQ(comparison_.view_hints_size(), 1);
    EXPECT_EQ(comparison_.view_hints(0).flags_size(), 1);
    return comparison_.view_hints(0).flags(0);
  }

  static Values Random(size_t count) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    Values out(count);
    for (float& x : out) x = normal(random);
    return out;
  }
};

MSITD_ON_BOTH_STORES(SuggestedViewTest);

TEST_P(SuggestedViewTest, RowsInAnotherOrder) {
  Values values = Random(6 * 8);
  golden_.Record(Shaped(values, {6, 8}));
  std::rotate(values.begin(), values.begin() + 16, values.end());
  for (float& x : values) x *= 1.000001F;
  target_.Record(Shaped(values, {6, 8}));
  EXPECT_EQ(Flag(), "--target-view 'op@output/0=any_order(0)'");
}

TEST_P(SuggestedViewTest, AxesAndShapes) {
  golden_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}));
  target_.Record(Shaped({1, 4, 7, 2, 5, 8, 3, 6, 9}, {3, 3}));
  EXPECT_EQ(Flag(), "--target-view 'op@output/0=permute(1,0)'");
}

TEST_P(SuggestedViewTest, AxesThatAreMerged) {
  golden_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}));
  target_.Record(Shaped({1, 2, 5, 6, 3, 4, 7, 8}, {4, 2}));
  EXPECT_EQ(Flag(),
            "--target-view 'op@output/0=reshape(2,2,2).permute(1,0,2)'");
}

TEST_P(SuggestedViewTest, AnotherShape) {
  golden_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}));
  target_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  EXPECT_EQ(Flag(), "--target-view 'op@output/0=reshape(2,2,2)'");
}

TEST_P(SuggestedViewTest, Heads) {
  golden_.Record(Shaped({1, 2, 5, 6, 3, 4, 7, 8}, {1, 2, 2, 2}));
  target_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 4}));
  EXPECT_EQ(Flag(), "--target-view 'op@output/0=heads(2)'");
}

TEST_P(SuggestedViewTest, RotaryPairs) {
  golden_.Record(Shaped({1, 3, 5, 7, 2, 4, 6, 8}, {1, 8}));
  target_.Record(Shaped({1, 2, 3, 4, 5, 6, 7, 8}, {1, 8}));
  EXPECT_EQ(Flag(), "--target-view 'op@output/0=rope_pairs(-1)'");
}

TEST_P(SuggestedViewTest, OtherValuesAreNotSuggested) {
  Values values = Random(6 * 8);
  golden_.Record(Shaped(values, {6, 8}));
  std::rotate(values.begin(), values.begin() + 16, values.end());
  // Sums, norms and extremes stay the same.
  std::swap(values[3], values[12]);
  target_.Record(Shaped(values, {6, 8}));
  EXPECT_EQ(Flag(), "");
}

TEST(AnyOrderTest, LargeTensorsAreRefused) {
  LogicalTensor golden;
  golden.kind = RecordKind::kTensor;
  golden.dtype = DType::kFloat32;
  golden.shape = {1 << 14, 1 << 14};
  auto plan = std::make_shared<ViewPlan>();
  plan->any_order = 0;
  auto view = std::make_shared<TensorView>();
  view->plan = plan;
  golden.view = view;
  LogicalTensor target = golden;
  EXPECT_THAT(AnyOrderProblem(golden, target),
              HasSubstr("at most 1073741824 bytes together, not 2147483648"));
  EXPECT_FALSE(AnyOrderRows(golden, target).has_value());
  golden.shape = target.shape = {1 << 23, 1};
  EXPECT_THAT(AnyOrderProblem(golden, target),
              HasSubstr("at most 4194304 rows, not 8388608"));
  golden.shape = target.shape = {3, 5, 7};
  plan->any_order = 1;
  target.view = nullptr;
  EXPECT_TRUE(IsInAnyOrder(golden, target));
  EXPECT_TRUE(IsInAnyOrder(target, golden));
  EXPECT_EQ(*AnyOrderRows(golden, target), (RowSlices{3, 5, 7}));
}

}  // namespace
}  // namespace msitd::compare
