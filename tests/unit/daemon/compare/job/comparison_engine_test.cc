// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "protos/base/resource_name.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ComparisonEngineTest : public ::testing::Test {
 protected:
  absl::Status Run(RowObserver& observer) {
    return ComparisonEngine(store_, plan_, observer).Run();
  }

  // Compares one tensor of each run and returns the row.
  v1::ComparisonRow RowOf(RecordedTensor target, RecordedTensor golden) {
    golden_.Record(golden);
    target_.Record(target);
    RowObserver observer;
    const absl::Status status = Run(observer);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(observer.rows.size(), 1u);
    return observer.rows.empty() ? v1::ComparisonRow() : observer.rows.front();
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
};

Digest DigestOf(const RecordedTensor& tensor) {
  return compute::DigestPart(std::as_bytes(std::span(tensor.bytes)),
                             tensor.dtype);
}

TEST_F(ComparisonEngineTest, EqualBytesPassWithoutBeingRead) {
  const v1::ComparisonRow row =
      RowOf(Floats("op", {1, 2, kNan}), Floats("op", {1, 2, kNan}));
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.bitwise_equal());
  EXPECT_EQ(MetricOf(row, "mismatch_count"), 0);
  EXPECT_EQ(store_.read_part_count(), 0u);
}

TEST_F(ComparisonEngineTest, EqualBytesPassWhateverThePredicate) {
  plan_.policy = *Policy::Create(std::vector<PolicyRule>{{"*", "cosine > 2"}});
  EXPECT_EQ(RowOf(Floats("op", {0, 0}), Floats("op", {0, 0})).verdict(),
            v1::PASS);
}

TEST_F(ComparisonEngineTest, AClaimedHashCountsAsAnyOther) {
  const RecordedTensor golden = Floats("op", {1, 2, -4});
  RecordedTensor target = golden;
  target.claim = DigestOf(golden);
  const v1::ComparisonRow row = RowOf(target, golden);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.bitwise_equal());
}

TEST_F(ComparisonEngineTest, AClaimThatContradictsItselfDoesNotPass) {
  const RecordedTensor honest = Floats("op", {1, 2, -4});
  RecordedTensor liar = honest;
  liar.claim = DigestOf(honest);
  liar.claim->summary.sum = -2;
  const v1::ComparisonRow row = RowOf(liar, honest);
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_FALSE(row.bitwise_equal());
  EXPECT_EQ(row.reason(),
            "the hashes are equal, but the summaries are not: what the rank of "
            "the target tensor says of it is not true");
}

TEST_F(ComparisonEngineTest, EqualBytesOfAnotherTypeAreNotEqual) {
  RecordedTensor target = Floats("op", {1, 2});
  target.dtype = DType::kInt32;
  const v1::ComparisonRow row = RowOf(target, Floats("op", {1, 2}));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_FALSE(row.bitwise_equal());
}

TEST_F(ComparisonEngineTest, FailingRowSaysWhatWhereAndBothSides) {
  RecordedTensor golden = Floats("layer", {1, 2, 3, 4, 5, 6});
  RecordedTensor target = Floats("layer", {1, 2, 3, 4, 5.5, 6});
  golden.shape = target.shape = {2, 3};
  golden.sequence = 17;
  const v1::ComparisonRow row = RowOf(target, golden);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), StartsWith("nl2 = 0.0524"));
  EXPECT_THAT(row.reason(), HasSubstr("needs <= 1e-4; largest difference at "
                                      "[1,1]: target 5.5, golden 5"));
  EXPECT_EQ(row.op(), "layer");
  EXPECT_EQ(row.io(), v1::IO_OUTPUT);
  EXPECT_EQ(row.sequence(), 17);
  EXPECT_EQ(MetricOf(row, "max_abs"), 0.5);
  EXPECT_DOUBLE_EQ(*MetricOf(row, "scaled_max_abs"), 0.5 / 6);
  EXPECT_THAT(row.predicate(), HasSubstr("nl2 <= 1e-4"));
  EXPECT_EQ(row.golden().name(), FormatTensorName(golden_.KeyOf(golden)));
  EXPECT_EQ(row.target().name(), FormatTensorName(target_.KeyOf(target)));
  EXPECT_EQ(row.golden().max(), 6);
  EXPECT_EQ(row.golden().dtype(), v1::D_TYPE_FLOAT32);
  EXPECT_EQ(row.golden().shape_size(), 2);
}

class WorstPlacesTest : public ComparisonEngineTest {
 protected:
  // Compares twelve elements, of which one differs, and returns the reason.
  std::string ReasonOf(const std::string& predicate,
                       const std::vector<int64_t>& shape) {
    plan_.policy = *Policy::Create(std::vector<PolicyRule>{{"*", predicate}});
    RecordedTensor golden = Floats("layer", std::vector<float>(12, 1));
    RecordedTensor target =
        Floats("layer", {1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1});
    golden.shape = target.shape = shape;
    return RowOf(target, golden).reason();
  }
};

TEST_F(WorstPlacesTest, AFailingRowNamesItsWorstRowAndChannel) {
  const std::string reason =
      ReasonOf("row_nl2_max <= 0.1 and channel_nl2_max <= 0.1", {4, 3});
  EXPECT_THAT(reason, StartsWith("row_nl2_max = 0.57735"));
  EXPECT_THAT(reason,
              HasSubstr("; worst row 2: 0.57735; worst channel 1: 0.5"));
}

TEST_F(WorstPlacesTest, SeveralLeadingDimensionsGiveThePositionOfTheRow) {
  EXPECT_THAT(ReasonOf("row_nl2_max <= 0.1", {2, 2, 3}),
              HasSubstr("; worst row [1,0]: 0.57735"));
}

TEST_F(WorstPlacesTest, OnlyWhatFailsIsNamed) {
  const std::string reason =
      ReasonOf("row_nl2_max <= 0.6 and channel_nl2_max <= 0.1", {4, 3});
  EXPECT_THAT(reason, HasSubstr("; worst channel 1: 0.5"));
  EXPECT_THAT(reason, Not(HasSubstr("worst row")));
}

TEST_F(WorstPlacesTest, AMetricThatNoPredicateNamesIsNot) {
  EXPECT_THAT(ReasonOf("max_abs <= 0.1", {4, 3}), Not(HasSubstr("worst")));
}

TEST_F(ComparisonEngineTest, ShapesThatDifferFailWithoutBeingRead) {
  RecordedTensor golden = Floats("op", {1, 2, 3, 4, 5, 6});
  RecordedTensor target = Floats("op", {1, 2, 3, 4, 5, 7});
  target.shape = {2, 3};
  golden.shape = {3, 2};
  const v1::ComparisonRow row = RowOf(target, golden);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.reason(), "shape: target [2,3], golden [3,2]");
  EXPECT_EQ(row.metrics_size(), 0);
  EXPECT_EQ(store_.read_part_count(), 0u);
}

TEST_F(ComparisonEngineTest, ScalarAgainstVectorOfOneIsAShapeDifference) {
  RecordedTensor target = Floats("op", {1});
  target.shape = {};
  EXPECT_EQ(RowOf(target, Floats("op", {1})).reason(),
            "shape: target [], golden [1]");
}

TEST_F(ComparisonEngineTest, ComplexAgainstRealIsSkipped) {
  RecordedTensor target = Floats("op", {1, 2});
  target.dtype = DType::kComplex64;
  target.shape = {1};
  const v1::ComparisonRow row = RowOf(target, Floats("op", {1}));
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_THAT(row.reason(), HasSubstr("target complex64, golden float32"));
}

TEST_F(ComparisonEngineTest, ComplexPairIsLocatedByElement) {
  RecordedTensor golden = Floats("op", {1, 2, 3, 4});
  RecordedTensor target = Floats("op", {1, 2, 3, 9});
  for (RecordedTensor* tensor : {&golden, &target}) {
    tensor->dtype = DType::kComplex64;
    tensor->shape = {2};
  }
  EXPECT_THAT(RowOf(target, golden).reason(),
              HasSubstr("largest difference at [1]: target 9, golden 4"));
}

TEST_F(ComparisonEngineTest, EmptyTensorsOfTwoTypesPass) {
  const v1::ComparisonRow row = RowOf(Bfloats("op", {}), Floats("op", {}));
  EXPECT_EQ(row.verdict(), v1::PASS);
  EXPECT_EQ(row.reason(), "no elements");
}

TEST_F(ComparisonEngineTest, NanOnOneSideFailsByDefault) {
  const v1::ComparisonRow row =
      RowOf(Floats("op", {1, kNan}), Floats("op", {1, 2}));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), StartsWith("nan_mismatch_count = 1, needs == 0"));
}

TEST_F(ComparisonEngineTest, TypesOfDifferentSizeCompareAcrossPartBorders) {
  // 5 parts of float32 against 3 of bfloat16. The last parts are shorter.
  std::vector<float> values(4'500'001);
  std::mt19937 random(5);
  for (float& value : values) {
    value = static_cast<float>(random() % 256) - 128;
  }
  RecordedTensor golden = Floats("op", values);
  RecordedTensor target = Bfloats("op", values);
  const v1::ComparisonRow row = RowOf(target, golden);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(MetricOf(row, "mismatch_count"), 0);
  EXPECT_FALSE(row.bitwise_equal());
  EXPECT_EQ(store_.read_part_count(), 8u);
  // The scan returned the positions of the tensors, so none was looked up.
  EXPECT_EQ(store_.get_tensor_count(), 0u);
}

TEST_F(ComparisonEngineTest, DifferenceBehindAPartBorderIsLocated) {
  std::vector<float> values(2'500'000, 1.0f);
  RecordedTensor golden = Floats("op", values);
  values[2'400'000] = 3;
  RecordedTensor target = Bfloats("op", values);
  const v1::ComparisonRow row = RowOf(target, golden);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(MetricOf(row, "mismatch_count"), 1);
  EXPECT_THAT(row.reason(), HasSubstr("at [2400000]: target 3, golden 1"));
}

TEST_F(ComparisonEngineTest, CorruptPartSkipsItsRowOnly) {
  const RecordedTensor bad = Floats("bad", {1, 2});
  golden_.Record(bad);
  golden_.Record(Floats("good", {1, 2}));
  target_.Record(Floats("bad", {1, 3}));
  target_.Record(Floats("good", {1, 3}));
  store_.Corrupt(golden_.KeyOf(bad), 0);
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  ASSERT_EQ(observer.rows.size(), 2u);
  EXPECT_EQ(observer.rows[0].verdict(), v1::SKIPPED);
  EXPECT_THAT(observer.rows[0].reason(), StartsWith("golden tensor: "));
  EXPECT_EQ(observer.rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(observer.comparison.first_divergence().op(), "good");
  EXPECT_TRUE(
      MetricOf(observer.comparison.first_divergence(), "max_abs").has_value());
}

TEST_F(ComparisonEngineTest, RowsKeepTheirOrderWhereSomeAreMeasuredAhead) {
  for (int i = 0; i < 60; ++i) {
    const std::string op = "op" + std::to_string(i);
    RecordedTensor golden = Floats(op, {1, static_cast<float>(i)});
    golden.sequence = i;
    golden_.Record(golden);
    // Tensors that are equal, have other shapes, or differ, in rotation. Some
    // cannot be read.
    RecordedTensor target = golden;
    if (i % 4 == 1) target = Floats(op, {1});
    if (i % 4 >= 2) target = Floats(op, {1, i + 0.5f});
    target_.Record(target);
    if (i % 20 == 7) store_.Corrupt(target_.KeyOf(target), 0);
  }
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  ASSERT_EQ(observer.rows.size(), 60u);
  for (int i = 0; i < 60; ++i) {
    const v1::ComparisonRow& row = observer.rows[i];
    EXPECT_EQ(row.row(), i);
    EXPECT_EQ(row.op(), "op" + std::to_string(i));
    EXPECT_EQ(row.verdict(), i % 4 == 0    ? v1::PASS
                             : i % 20 == 7 ? v1::SKIPPED
                                           : v1::FAIL)
        << row.op() << ": " << row.reason();
    if (row.verdict() == v1::FAIL && i % 4 >= 2) {
      EXPECT_EQ(MetricOf(row, "max_abs"), 0.5) << row.op();
    }
  }
}

TEST_F(ComparisonEngineTest, ExpiredBytesAreDecidedByHashOrSkipped) {
  const RecordedTensor same = Floats("same", {1, 2});
  const RecordedTensor changed = Floats("changed", {1, 2});
  for (const RecordedTensor* tensor : {&same, &changed}) {
    golden_.Record(*tensor);
    store_.Expire(golden_.KeyOf(*tensor));
  }
  target_.Record(same);
  // The elements are reordered, which does not change the summary.
  target_.Record(Floats("changed", {2, 1}));
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  EXPECT_EQ(observer.rows[0].verdict(), v1::PASS);
  EXPECT_EQ(observer.rows[1].verdict(), v1::SKIPPED);
  EXPECT_THAT(observer.rows[1].reason(),
              HasSubstr("bytes of the golden tensor are not kept"));
  EXPECT_EQ(store_.read_part_count(), 0u);
}

TEST_F(ComparisonEngineTest, UnmatchedTensorsOfBothSidesHaveRows) {
  golden_.Record(Floats("removed", {1}));
  target_.Record(Floats("added", {1}));
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  ASSERT_EQ(observer.rows.size(), 2u);
  EXPECT_EQ(observer.rows[0].verdict(), v1::UNMATCHED);
  EXPECT_EQ(observer.rows[0].reason(), "only in run g");
  EXPECT_FALSE(observer.rows[0].has_target());
  EXPECT_EQ(observer.rows[1].reason(), "only in run t");
  EXPECT_FALSE(observer.rows[1].has_golden());
  EXPECT_EQ(observer.rows[1].row(), 1);
  EXPECT_EQ(observer.comparison.unmatched_count(), 2);
  EXPECT_FALSE(observer.comparison.has_first_divergence());
}

TEST_F(ComparisonEngineTest,
       FirstDivergenceIsThatOfTheLowestRankIfRanksShareNothing) {
  const auto record = [this](int32_t rank, int64_t token, int64_t sequence,
                             std::string op, float value) {
    RecordedTensor tensor = Floats(op, {1});
    tensor.rank = rank;
    tensor.token = token;
    tensor.sequence = sequence;
    golden_.Record(tensor);
    tensor.bytes = BytesOf(std::vector<float>{value});
    target_.Record(tensor);
  };
  record(0, 0, 0, "a", 1);
  record(1, 1, 7, "first", 2);
  record(0, 1, 3, "other",
         2);  // Sequences of different ranks are not comparable.
  record(1, 1, 9, "after", 2);
  record(0, 2, 3, "next", 2);  // Lower sequence at a later token.
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  EXPECT_EQ(observer.comparison.first_divergence().op(), "other");
  ASSERT_EQ(observer.comparison.concurrent_divergences_size(), 1);
  EXPECT_EQ(observer.comparison.concurrent_divergences(0).op(), "first");
  EXPECT_EQ(observer.comparison.fail_count(), 4);
  EXPECT_EQ(observer.comparison.pass_count(), 1);
}

TEST_F(ComparisonEngineTest, TotalCountsGoldenTensorsOfTheSelection) {
  for (const std::string_view op : {"a", "b", "c"}) {
    golden_.Record(Floats(op, {1}));
  }
  target_.Record(Floats("z", {1}));
  RowObserver all;
  ASSERT_TRUE(Run(all).ok());
  EXPECT_EQ(all.comparison.total_count(), 3);
  plan_.selector.op_patterns = {"b"};
  RowObserver one;
  ASSERT_TRUE(Run(one).ok());
  EXPECT_EQ(one.comparison.total_count(), 1);
  EXPECT_EQ(one.rows.size(), 1u);
}

TEST_F(ComparisonEngineTest, CancelEndsBetweenPairs) {
  for (const std::string_view op : {"a", "b", "c"}) {
    golden_.Record(Floats(op, {1}));
    target_.Record(Floats(op, {1}));
  }
  RowObserver observer;
  observer.is_cancelled = [&observer] { return observer.rows.size() == 2; };
  EXPECT_TRUE(absl::IsCancelled(Run(observer)));
  EXPECT_EQ(observer.rows.size(), 2u);
}

TEST_F(ComparisonEngineTest, CancelEndsBetweenParts) {
  std::vector<float> values(3 << 20, 1.0f);
  golden_.Record(Floats("op", values));
  values[0] = 2;
  target_.Record(Floats("op", values));
  RowObserver observer;
  observer.is_cancelled = [this] { return store_.read_part_count() >= 2; };
  EXPECT_TRUE(absl::IsCancelled(Run(observer)));
  EXPECT_TRUE(observer.rows.empty());
  EXPECT_EQ(store_.read_part_count(), 2u);
}

TEST_F(ComparisonEngineTest, ReadBytesCountBothSides) {
  golden_.Record(Floats("op", {1, 2, 3}));
  target_.Record(Bfloats("op", {1, 2, 3}));
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  EXPECT_EQ(observer.read_bytes, 12u + 6u);
}

TEST_F(ComparisonEngineTest, EmptyRunsGiveNoRows) {
  RowObserver observer;
  EXPECT_TRUE(Run(observer).ok());
  EXPECT_TRUE(observer.rows.empty());
}

TEST_F(ComparisonEngineTest, NamesWithSlashBlankAndUnicodeMatch) {
  RecordedTensor tensor = Floats("层 1/注意力", {1});
  tensor.index = "";
  EXPECT_EQ(RowOf(tensor, tensor).verdict(), v1::PASS);
}

Policy WithPreset(Preset preset) {
  PolicySpec spec;
  spec.preset = preset;
  return *Policy::Create(spec);
}

TEST_F(ComparisonEngineTest, TorchSaysHowManyAreOutAndWhatWouldPass) {
  plan_.policy = WithPreset(Preset::kTorch);
  const v1::ComparisonRow row =
      RowOf(Floats("op", {1, 2.5, 4}), Floats("op", {1, 2, 4}));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(MetricOf(row, "outlier_count"), 1);
  EXPECT_EQ(row.rtol(), 1.3e-6);
  EXPECT_THAT(row.reason(),
              HasSubstr("outlier_count = 1, needs == 0 (rtol 1.3e-06, atol "
                        "1e-05); passes with atol 0.499997 or rtol 0.249995"));
}

TEST_F(ComparisonEngineTest, BitwiseFailsByHashWhenBytesAreGone) {
  plan_.policy = WithPreset(Preset::kBitwise);
  const v1::ComparisonRow row = RowOf(Floats("op", {-0.0F}), Floats("op", {0}));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(MetricOf(row, "bitwise_mismatch_count"), 1);
}

TEST_F(ComparisonEngineTest, ShapesAgreeAsThePolicySays) {
  RecordedTensor golden = Floats("op", {1, 2, 3, 4});
  RecordedTensor target = Floats("op", {1, 2, 3, 5});
  golden.shape = {1, 4};
  for (const auto& [preset, squeezed, counted] :
       {std::tuple(Preset::kDefault, false, false),
        std::tuple(Preset::kSglang, true, false),
        std::tuple(Preset::kMsit, true, true)}) {
    plan_.policy = WithPreset(preset);
    testing::FakeStore store;
    RunRecorder golden_run(store, "g");
    RunRecorder target_run(store, "t");
    target.shape = {4};
    golden_run.Record(golden);
    target_run.Record(target);
    RecordedTensor square = target;
    square.op = "square";
    square.shape = {2, 2};
    target_run.Record(square);
    RecordedTensor square_golden = golden;
    square_golden.op = "square";
    golden_run.Record(square_golden);
    RowObserver observer;
    ASSERT_TRUE(ComparisonEngine(store, plan_, observer).Run().ok());
    ASSERT_EQ(observer.rows.size(), 2u);
    EXPECT_EQ(MetricOf(observer.rows[0], "max_abs").has_value(), squeezed);
    EXPECT_EQ(MetricOf(observer.rows[1], "max_abs").has_value(), counted);
  }
}

TEST_F(ComparisonEngineTest,
       SmallestTolerancesThatWouldPassAreThoseOfTheWorst) {
  plan_.policy = *Policy::Create(
      std::vector<PolicyRule>{{"*", "max_abs <= 0.1 and cosine >= 0.9999"}});
  for (const float off : {0.5F, 2.0F, 1.0F}) {
    const std::string op = std::to_string(off);
    golden_.Record(Floats(op, {1, 10}));
    target_.Record(Floats(op, {1 + off, 10}));
  }
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  ASSERT_EQ(observer.comparison.required_tolerances_size(), 2);
  const v1::RequiredTolerance& first =
      observer.comparison.required_tolerances(0);
  EXPECT_EQ(first.metric(), "max_abs");
  EXPECT_EQ(first.required(), 2);
  EXPECT_EQ(first.row(), 1);
  EXPECT_EQ(first.row_count(), 3);
  EXPECT_EQ(first.rule(), 0);
  EXPECT_TRUE(observer.comparison.required_tolerances(1).at_least());
  EXPECT_LT(observer.comparison.required_tolerances(1).required(), 0.99);
}

RecordedTensor In(RecordedTensor tensor, Io io) {
  tensor.io = io;
  return tensor;
}

TEST_F(ComparisonEngineTest, TheOpThatWasGivenEqualInputsMadeTheDifference) {
  const auto record = [](RunRecorder& run, float error) {
    run.Record(In(Floats("a", {1}), Io::kInput));
    run.Record(Floats("a", {2}));
    run.Record(In(Floats("b", {2}), Io::kInput));
    run.Record(Floats("b.part", {3 + error}));
    run.Record(Floats("b", {3 + error}));
    run.Record(In(Floats("c", {3}), Io::kInput));
    run.Record(Floats("c", {4 + error}));
    run.Record(In(Floats("d", {4 + error}), Io::kInput));
    run.Record(Floats("d", {5 + error}));
  };
  record(golden_, 0);
  record(target_, 1);
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  std::vector<std::pair<std::string, v1::Origin>> origins;
  for (const v1::ComparisonRow& row : observer.rows) {
    if (row.origin() == v1::ORIGIN_UNSPECIFIED) continue;
    origins.emplace_back(row.op(), row.origin());
  }
  EXPECT_THAT(origins,
              ::testing::ElementsAre(::testing::Pair("b.part", v1::CREATED),
                                     ::testing::Pair("b", v1::INSIDE),
                                     ::testing::Pair("c", v1::CREATED),
                                     ::testing::Pair("d", v1::PASSED_ON),
                                     ::testing::Pair("d", v1::PASSED_ON)));
  EXPECT_EQ(observer.comparison.first_divergence().op(), "b.part");
  EXPECT_EQ(observer.comparison.first_origin().op(), "b.part");
}

TEST_F(ComparisonEngineTest, FirstNonFiniteIsThatOfTheTargetAcrossRanks) {
  const auto record = [](RunRecorder& run, bool bad) {
    for (const int32_t rank : {0, 1}) {
      for (const int64_t sequence : {5, 9}) {
        RecordedTensor tensor =
            Floats("op" + std::to_string(sequence - rank), {1, kNan, 1});
        tensor.rank = rank;
        tensor.sequence = sequence - rank;
        if (bad) tensor.bytes = BytesOf<float>({kNan, kNan, 1});
        run.Record(tensor);
      }
    }
  };
  record(golden_, false);
  record(target_, true);
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  EXPECT_EQ(observer.comparison.first_non_finite().op(), "op4");
  EXPECT_EQ(observer.comparison.first_non_finite().rank(), 1);
}

TEST_F(ComparisonEngineTest, WatchesTellTheRowsForWhichTheyHold) {
  for (const char* text : {"target_nan_count > 0", "failed > 0", "nl2 > 5"}) {
    plan_.watches.push_back(*predicate::Predicate::Parse(text, WatchNames()));
  }
  golden_.Record(Floats("a", {1}));
  target_.Record(Floats("a", {2}));
  golden_.Record(Floats("b", {1}));
  target_.Record(Floats("b", {kNan}));
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  EXPECT_THAT(observer.rows[0].watches(), ::testing::ElementsAre(1));
  EXPECT_THAT(observer.rows[1].watches(), ::testing::ElementsAre(0, 1));
  EXPECT_EQ(observer.comparison.watched_count(), 2);
}

TEST_F(ComparisonEngineTest, FollowingComparesTokensAsTheyComplete) {
  plan_.follow = true;
  const auto record = [](RunRecorder& run, int64_t token) {
    RecordedTensor tensor = Floats("op", {1});
    tensor.token = token;
    run.Record(tensor);
  };
  for (const int64_t token : {0, 1, 2}) record(golden_, token);
  ASSERT_TRUE(store_.SealRun("g").ok());
  record(target_, 0);
  RowObserver observer;
  ComparisonEngine engine(store_, plan_, observer);
  // A token is complete when there is a later one. The last token is complete
  // when the run is sealed.
  for (size_t rows = 0; rows <= 2; ++rows) {
    ASSERT_TRUE(engine.Run().ok());
    EXPECT_TRUE(engine.waits());
    EXPECT_FALSE(engine.HasNews());
    EXPECT_EQ(observer.rows.size(), rows);
    if (rows < 2) {
      record(target_, static_cast<int64_t>(rows) + 1);
    } else {
      ASSERT_TRUE(store_.SealRun("t").ok());
    }
    EXPECT_TRUE(engine.HasNews());
  }
  ASSERT_TRUE(engine.Run().ok());
  EXPECT_FALSE(engine.waits());
  EXPECT_EQ(observer.rows.size(), 3u);
  EXPECT_EQ(observer.comparison.pass_count(), 3);
}

TEST_F(ComparisonEngineTest, FollowingHearsOfARunThatGoes) {
  plan_.follow = true;
  RowObserver observer;
  ComparisonEngine engine(store_, plan_, observer);
  golden_.Record(Floats("op", {1}));
  target_.Record(Floats("op", {1}));
  ASSERT_TRUE(engine.Run().ok());
  EXPECT_FALSE(engine.HasNews());
  ASSERT_TRUE(store_.DeleteRun("t").ok());
  EXPECT_TRUE(engine.HasNews());
  EXPECT_EQ(Reason(engine.Run()), "RUN_NOT_FOUND");
}

TEST_F(ComparisonEngineTest, FollowingKnowsOfTokensThatItDoesNotCompare) {
  plan_.follow = true;
  plan_.selector.tokens = {{0, 0}};
  for (const int64_t token : {0, 1}) {
    RecordedTensor tensor = Floats("op", {1});
    tensor.token = token;
    golden_.Record(tensor);
    target_.Record(tensor);
  }
  RowObserver observer;
  ComparisonEngine engine(store_, plan_, observer);
  ASSERT_TRUE(engine.Run().ok());
  EXPECT_TRUE(engine.waits()) << "nothing is sealed";
  ASSERT_EQ(observer.rows.size(), 1u);
  EXPECT_EQ(observer.rows[0].token(), 0);
}

TEST_F(ComparisonEngineTest, RulesThatMeetNoOpAreNamed) {
  for (RunRecorder* run : {&golden_, &target_}) {
    run->Record(Floats("root.head", {1}));
    run->Record(Floats("root.extra", {1}));
  }
  PolicySpec spec;
  spec.rules = {{.op_pattern = "*.head", .predicate = "nl2 <= 1"},
                {.op_pattern = "head", .predicate = "nl2 <= 1e-9"},
                {.op_pattern = "root.head", .preset = Preset::kTorch},
                {.op_pattern = "tail.*", .is_regex = true, .rtol = 0.5}};
  spec.allow_unmatched = {"extra", "*.extra@output"};
  plan_.policy = *Policy::Create(spec);
  v1::Matching matching;
  for (const char* regex : {"^root", "^model"}) {
    v1::Matching::Rewrite& rewrite = *matching.add_rewrites();
    rewrite.set_regex(regex);
    rewrite.set_replacement("root");
  }
  plan_.matching = *MatchRules::Create(matching);
  RowObserver observer;
  ASSERT_TRUE(Run(observer).ok());
  EXPECT_THAT(observer.comparison.idle_rules(),
              ::testing::ElementsAre(
                  "--rule 'head: nl2 <= 1e-9'", "--rule '/tail.*/: rtol=0.5'",
                  "--rewrite '^model=>root'", "--allow-unmatched 'extra'"));
}

}  // namespace
}  // namespace msitd::compare
