// SPDX-License-Identifier: Apache-2.0
// Tests of comparisons in which at least one side has samples of its tensors.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Number of elements, of which every third one is sampled.
constexpr size_t kElements = 3000;
constexpr size_t kStep = 3;

class SampleRowsTest : public ::testing::Test {
 protected:
  static std::vector<float> Values() {
    std::vector<float> values(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<float>(i % 64) + 1;
    }
    return values;
  }

  static RecordedTensor Sampled(RecordedTensor tensor) {
    tensor.chunk_flags = chunk::kSampleFlag;
    return tensor;
  }

  RowObserver Run() {
    RowObserver observer;
    const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    return observer;
  }

  // Compares one tensor of each run and returns the row.
  v1::ComparisonRow RowOf(const RecordedTensor& target,
                          const RecordedTensor& golden) {
    golden_.Record(golden);
    target_.Record(target);
    const RowObserver observer = Run();
    read_bytes_ = observer.read_bytes;
    EXPECT_EQ(observer.rows.size(), 1u);
    return observer.rows.empty() ? v1::ComparisonRow() : observer.rows.front();
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
  uint64_t read_bytes_ = 0;
};

TEST_F(SampleRowsTest, IntegersWithOtherHashesDifferWithoutAnyBytes) {
  // The integers have the same magnitudes, so the summaries cannot distinguish
  // them.
  std::vector<int64_t> up(kElements);
  for (size_t i = 0; i < kElements; ++i) up[i] = static_cast<int64_t>(i);
  std::vector<int64_t> down(up.rbegin(), up.rend());
  for (const uint32_t flag : {chunk::kSummaryOnlyFlag, chunk::kSampleFlag}) {
    RecordedTensor golden;
    golden.op = "ids" + std::to_string(flag);
    golden.dtype = DType::kInt64;
    golden.shape = {static_cast<int64_t>(kElements)};
    golden.chunk_flags = flag;
    RecordedTensor target = golden;
    golden.bytes = BytesOf(up);
    target.bytes = BytesOf(down);
    golden_.Record(golden);
    target_.Record(target);
  }
  for (const v1::ComparisonRow& row : Run().rows) {
    EXPECT_EQ(row.verdict(), v1::FAIL);
    EXPECT_EQ(row.reason(), "the hashes differ; the bytes are not kept");
  }
}

TEST_F(SampleRowsTest, HashesTellWhereValuesFirstDiffer) {
  std::vector<float> other = Values();
  std::swap(other[1], other[2]);
  for (RunRecorder* const run : {&golden_, &target_}) {
    RecordedTensor first = Floats("first", run == &golden_ ? Values() : other);
    first.chunk_flags = chunk::kSummaryOnlyFlag;
    run->Record(first);
    run->Record(Floats("second", {run == &golden_ ? 1.0F : 2.0F}));
  }
  const RowObserver observer = Run();
  EXPECT_EQ(observer.rows[0].verdict(), v1::SKIPPED);
  EXPECT_EQ(observer.comparison.first_inequality().op(), "first");
}

TEST_F(SampleRowsTest, EqualHashesPassWithoutSamplesBeingRead) {
  const v1::ComparisonRow row =
      RowOf(Sampled(Floats("op", Values())), Floats("op", Values()));
  EXPECT_EQ(row.verdict(), v1::PASS);
  EXPECT_TRUE(row.bitwise_equal());
  EXPECT_FALSE(row.sampled());
  EXPECT_EQ(row.reason(), "");
  EXPECT_EQ(store_.read_part_count(), 0u);
}

TEST_F(SampleRowsTest, SampleIsComparedWithThatOfTheOtherSidesBytes) {
  std::vector<float> values = Values();
  values[7 * kStep] += 16;
  // This element is not sampled, so its difference cannot be detected.
  values[7 * kStep + 1] += 1000;
  for (const bool golden_is_sampled : {true, false}) {
    const std::string op = golden_is_sampled ? "golden" : "target";
    RecordedTensor golden = Floats(op, Values());
    RecordedTensor target = Floats(op, values);
    golden_.Record(golden_is_sampled ? Sampled(golden) : golden);
    target_.Record(golden_is_sampled ? target : Sampled(target));
  }
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 2u);
  for (const v1::ComparisonRow& row : observer.rows) {
    EXPECT_EQ(row.verdict(), v1::FAIL) << row.op();
    EXPECT_TRUE(row.sampled());
    EXPECT_EQ(MetricOf(row, "max_abs"), 16);
    EXPECT_THAT(row.reason(), StartsWith("nl2 = "));
    EXPECT_THAT(row.reason(),
                HasSubstr("largest difference at [21]: target 38, golden 22"));
    EXPECT_THAT(row.reason(), HasSubstr("; sampled: 1000 of 3000 elements"));
    // The summary covers the whole tensor.
    EXPECT_EQ(row.target().max(), values[7 * kStep + 1]);
  }
  // The sample of one side and the bytes of the other side, twice.
  EXPECT_EQ(observer.read_bytes, 2 * 4 * (1000 + kElements));
}

TEST_F(SampleRowsTest, MetricsAreThoseOfTheSampledElements) {
  std::vector<float> target = Values();
  for (size_t i = 0; i < kElements; ++i) {
    target[i] += i % kStep == 0 ? 0.25F * static_cast<float>(i % 5) : 100;
  }
  std::vector<float> golden_elements;
  std::vector<float> target_elements;
  for (size_t i = 0; i < kElements; i += kStep) {
    golden_elements.push_back(Values()[i]);
    target_elements.push_back(target[i]);
  }
  golden_.Record(Sampled(Floats("sample", Values())));
  target_.Record(Sampled(Floats("sample", target)));
  golden_.Record(Floats("elements", golden_elements));
  target_.Record(Floats("elements", target_elements));
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 2u);
  const v1::ComparisonRow& sample = observer.rows[0];
  v1::ComparisonRow elements = observer.rows[1];
  // The rows of a sample are incomplete.
  const auto is_of_row = [](const v1::MetricValue& value) {
    return value.metric().starts_with("row_nl2_");
  };
  auto& metrics = *elements.mutable_metrics();
  const auto of_rows =
      std::remove_if(metrics.begin(), metrics.end(), is_of_row);
  EXPECT_EQ(metrics.end() - of_rows, 2);
  metrics.erase(of_rows, metrics.end());
  EXPECT_TRUE(sample.sampled());
  EXPECT_FALSE(elements.sampled());
  EXPECT_EQ(sample.verdict(), elements.verdict());
  ASSERT_EQ(sample.metrics_size(), elements.metrics_size());
  for (int i = 0; i < sample.metrics_size(); ++i) {
    EXPECT_EQ(sample.metrics(i).metric(), elements.metrics(i).metric());
    EXPECT_EQ(sample.metrics(i).value(), elements.metrics(i).value())
        << sample.metrics(i).metric();
  }
}

TEST_F(SampleRowsTest, SamplesOfBothSidesMayPassThePredicate) {
  std::vector<float> values = Values();
  for (float& value : values) value *= 1.00001F;
  const v1::ComparisonRow row =
      RowOf(Sampled(Floats("op", values)), Sampled(Floats("op", Values())));
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.sampled());
  EXPECT_FALSE(row.bitwise_equal());
  EXPECT_EQ(row.reason(), "sampled: 1000 of 3000 elements");
  EXPECT_THAT(row.predicate(), HasSubstr("nl2 <= 1e-4"));
  EXPECT_EQ(read_bytes_, 2 * 4 * 1000u);
}

// The summaries of whole tensors can prove a failure that a sample misses.
TEST_F(SampleRowsTest, SummariesProveWhatSamplesMiss) {
  std::vector<float> values = Values();
  for (const char* const op : {"nan", "large", "other"}) {
    golden_.Record(Sampled(Floats(op, values)));
    std::vector<float> target = values;
    if (op[0] == 'n') target[1] = std::numeric_limits<float>::quiet_NaN();
    if (op[0] == 'l') target[1] = 1e6F;
    if (op[0] == 'o') std::swap(target[1], target[2]);
    target_.Record(Sampled(Floats(op, target)));
  }
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 3u);
  const v1::ComparisonRow& nan = observer.rows[0];
  EXPECT_EQ(nan.verdict(), v1::FAIL);
  EXPECT_EQ(nan.reason(),
            "nan_mismatch_count = 1, needs == 0; so the summaries of the whole "
            "tensors say; sampled: 1000 of 3000 elements");
  // The metrics are computed from the sample.
  EXPECT_EQ(MetricOf(nan, "nan_mismatch_count"), 0);
  EXPECT_EQ(observer.rows[1].verdict(), v1::FAIL);
  EXPECT_THAT(observer.rows[1].reason(), StartsWith("nl2 = "));
  EXPECT_EQ(observer.rows[2].verdict(), v1::PASS);
  EXPECT_EQ(observer.comparison.sampled_count(), 3);
  // With the required bound, the second row passes.
  const std::string& bound = "nan_mismatch_count == 0 and nl2 <= ";
  for (const v1::RequiredTolerance& needed :
       observer.comparison.required_tolerances()) {
    if (needed.metric() != "nl2") continue;
    plan_.policy = *Policy::Create(std::vector<PolicyRule>{
        {"large", bound + fmt::format("{}", needed.required())}});
  }
  EXPECT_EQ(Run().rows[1].verdict(), v1::PASS);
}

TEST_F(SampleRowsTest, SummariesAloneProveAFailureAndNoPass) {
  const std::vector<float> values = Values();
  for (const char* const op : {"nan", "scaled", "other"}) {
    std::vector<float> target = values;
    if (op[0] == 'n') target[1] = std::numeric_limits<float>::quiet_NaN();
    if (op[0] == 's') {
      for (float& value : target) value *= 1.5F;
    }
    if (op[0] == 'o') std::swap(target[1], target[2]);
    for (RunRecorder* run : {&golden_, &target_}) {
      RecordedTensor tensor = Floats(op, run == &golden_ ? values : target);
      tensor.chunk_flags = chunk::kSummaryOnlyFlag;
      run->Record(tensor);
    }
  }
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 3u);
  EXPECT_EQ(observer.rows[0].verdict(), v1::FAIL);
  EXPECT_EQ(observer.rows[0].reason(),
            "nan_mismatch_count = 1, needs == 0; so the summaries of the whole "
            "tensors say");
  EXPECT_EQ(observer.rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(observer.rows[2].verdict(), v1::SKIPPED);
  ASSERT_TRUE(observer.comparison.has_first_skipped());
  EXPECT_EQ(observer.comparison.first_skipped().op(), "other");
  // No tolerance admits the NaN. The scaled values would pass with a larger
  // bound.
  EXPECT_EQ(observer.comparison.hopeless_count(), 1);
}

TEST_F(SampleRowsTest, NanOnBothSidesIsCounted) {
  std::vector<float> values = Values();
  values[5] = std::numeric_limits<float>::quiet_NaN();
  for (const char* const op : {"a", "b"}) {
    golden_.Record(Floats(op, values));
    target_.Record(Floats(op, values));
  }
  const RowObserver observer = Run();
  EXPECT_EQ(observer.comparison.pass_count(), 2);
  EXPECT_EQ(observer.comparison.both_non_finite_count(), 2);
  EXPECT_EQ(observer.comparison.first_both_non_finite().op(), "a");
}

TEST_F(SampleRowsTest, TypesMayDiffer) {
  std::vector<float> values = Values();
  values[1] = 7;
  const v1::ComparisonRow row =
      RowOf(Bfloats("op", values), Sampled(Floats("op", Values())));
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.sampled());
  EXPECT_EQ(MetricOf(row, "max_abs"), 0);
}

TEST_F(SampleRowsTest, SampleOfSeveralPartsIsOfTheWholeTensor) {
  std::vector<float> values(2 * kPartBytes / sizeof(float) + 5);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 100) + 1;
  }
  RecordedTensor golden = Sampled(Floats("op", values));
  // The step is 2049, so element 1000 of the sample is in the second part.
  values[2049 * 1000] += 50;
  const v1::ComparisonRow row = RowOf(Floats("op", values), golden);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(MetricOf(row, "max_abs"), 50);
  EXPECT_THAT(row.reason(), HasSubstr("at [2049000]: "));
  EXPECT_THAT(row.reason(), HasSubstr("sampled: 1024 of 2097157 elements"));
  // The scan returned the positions of the tensors, so none was looked up.
  EXPECT_EQ(store_.get_tensor_count(), 0u);
}

TEST_F(SampleRowsTest, ComplexElementsAreSampledWhole) {
  std::vector<float> values = Values();
  RecordedTensor golden = Floats("op", values);
  // Element 1498 has the components 2996 and 2997. Every second element is
  // sampled.
  values[2997] += 8;
  RecordedTensor target = Floats("op", values);
  for (RecordedTensor* const tensor : {&golden, &target}) {
    tensor->dtype = DType::kComplex64;
    tensor->shape = {kElements / 2};
  }
  const v1::ComparisonRow row = RowOf(target, Sampled(golden));
  EXPECT_TRUE(row.sampled());
  EXPECT_EQ(MetricOf(row, "max_abs"), 8);
  EXPECT_THAT(row.reason(), HasSubstr("at [1498]: "));
}

TEST_F(SampleRowsTest, SmallTensorIsItsOwnSample) {
  const v1::ComparisonRow row =
      RowOf(Sampled(Floats("op", {1, 2, 5})), Floats("op", {1, 2, 3}));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), HasSubstr("at [2]: target 5, golden 3"));
  EXPECT_THAT(row.reason(), HasSubstr("sampled: 3 of 3 elements"));
}

TEST_F(SampleRowsTest, ShapesMayDifferWhereThePolicyLetsThem) {
  PolicySpec spec;
  spec.shape_rule = ShapeRule::kCount;
  plan_.policy = *Policy::Create(spec);
  std::vector<float> values = Values();
  values[1] += 1;
  RecordedTensor target = Sampled(Floats("op", values));
  target.shape = {2, kElements / 2};
  const v1::ComparisonRow row = RowOf(target, Floats("op", Values()));
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_TRUE(row.sampled());
}

TEST_F(SampleRowsTest, ShapesThatDifferFailAsAlways) {
  RecordedTensor target = Sampled(Floats("op", Values()));
  target.shape = {2, kElements / 2};
  const v1::ComparisonRow row = RowOf(target, Floats("op", Values()));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_FALSE(row.sampled());
  EXPECT_THAT(row.reason(), StartsWith("shape: "));
}

TEST_F(SampleRowsTest, HashesDecideWhereThePolicyAsksForEqualBytes) {
  PolicySpec spec;
  spec.preset = Preset::kBitwise;
  plan_.policy = *Policy::Create(spec);
  std::vector<float> values = Values();
  values[1] += 1;
  const v1::ComparisonRow row =
      RowOf(Sampled(Floats("op", values)), Sampled(Floats("op", Values())));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.reason(), "the hashes differ; the bytes are not kept");
  EXPECT_FALSE(row.sampled());
  EXPECT_EQ(store_.read_part_count(), 0u);
}

TEST_F(SampleRowsTest, SideWithoutBytesAndSampleIsSkipped) {
  std::vector<float> values = Values();
  values[0] += 1;
  RecordedTensor golden = Floats("summary", Values());
  golden.chunk_flags = chunk::kSummaryOnlyFlag;
  golden_.Record(golden);
  target_.Record(Sampled(Floats("summary", values)));
  golden_.Record(Sampled(Floats("expired", Values())));
  target_.Record(Floats("expired", values));
  store_.Expire(golden_.KeyOf(Floats("expired", values)));
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 2u);
  for (const v1::ComparisonRow& row : observer.rows) {
    EXPECT_EQ(row.verdict(), v1::SKIPPED) << row.op();
    EXPECT_FALSE(row.sampled());
    EXPECT_THAT(row.reason(), HasSubstr("are not kept, and the hashes do not"));
  }
  EXPECT_EQ(store_.read_part_count(), 0u);
}

// Returns layouts for both runs, so that either can have the shards.
MatchRules LayoutOf(v1::Layout::Kind kind) {
  v1::Matching matching;
  for (v1::Layout* layout :
       {matching.add_target_layouts(), matching.add_golden_layouts()}) {
    layout->set_op_pattern("op");
    layout->set_kind(kind);
  }
  return *MatchRules::Create(matching);
}

TEST_F(SampleRowsTest, SamplesOfShardsAreThatOfTheWholeWhereTheyFit) {
  plan_.matching = LayoutOf(v1::Layout::CONCAT);
  // The samples have every second element of the shards, and every fourth of
  // the whole tensor.
  constexpr size_t kShard = 2048;
  std::vector<float> values(2 * kShard);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 64) + 1;
  }
  golden_.Record(Sampled(Floats("op", values)));
  values[kShard + 8] += 100;
  values[kShard + 9] += 100;  // Not sampled.
  for (const int32_t rank : {0, 1}) {
    RecordedTensor shard = Floats(
        "op", {values.begin() + rank * static_cast<ptrdiff_t>(kShard),
               values.begin() + (rank + 1) * static_cast<ptrdiff_t>(kShard)});
    shard.rank = rank;
    target_.Record(rank == 0 ? shard : Sampled(shard));
  }
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 1u);
  const v1::ComparisonRow& row = observer.rows.front();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_TRUE(row.sampled());
  EXPECT_EQ(MetricOf(row, "max_abs"), 100);
  EXPECT_EQ(MetricOf(row, "mean_abs"), 100.0 / 1024);
  EXPECT_THAT(row.reason(), HasSubstr("[2056]"));
  EXPECT_THAT(row.reason(), HasSubstr("sampled: 1024 of 4096 elements"));
}

TEST_F(SampleRowsTest, SamplesOfTermsAreAdded) {
  plan_.matching = LayoutOf(v1::Layout::SUM);
  std::vector<float> sum = Values();
  for (float& value : sum) value *= 3;
  sum[kStep] += 64;
  golden_.Record(Sampled(Floats("op", sum)));
  for (const int32_t rank : {0, 1, 2}) {
    RecordedTensor term = Floats("op", Values());
    term.rank = rank;
    target_.Record(Sampled(term));
  }
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 1u);
  EXPECT_TRUE(observer.rows.front().sampled());
  EXPECT_EQ(MetricOf(observer.rows.front(), "max_abs"), 64);
}

TEST_F(SampleRowsTest, SamplesOfShardsThatDoNotFitAreSkippedWithAReason) {
  plan_.matching = LayoutOf(v1::Layout::CONCAT);
  // The samples have every second element of the shards, and every third of the
  // whole tensor.
  golden_.Record(Floats("op", Values()));
  // The elements are reordered, which does not change the summary.
  const std::vector<float> values = Values();
  for (const int32_t rank : {0, 1}) {
    const auto begin = values.rbegin() + rank * (kElements / 2);
    RecordedTensor shard = Floats("op", {begin, begin + kElements / 2});
    shard.rank = rank;
    target_.Record(Sampled(shard));
  }
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 1u);
  EXPECT_EQ(observer.rows.front().verdict(), v1::SKIPPED);
  EXPECT_FALSE(observer.rows.front().sampled());
  EXPECT_THAT(observer.rows.front().reason(),
              HasSubstr("; the samples of its shards do not have the sample of "
                        "the target tensor, every element of which has a "
                        "number divisible by 3"));
}

TEST_F(SampleRowsTest, DamagedSampleIsSkippedAndTheComparisonGoesOn) {
  std::vector<float> values = Values();
  values[0] += 1;
  for (const char* const op : {"damaged", "whole"}) {
    golden_.Record(Sampled(Floats(op, Values())));
    target_.Record(Floats(op, values));
  }
  store_.Corrupt(golden_.KeyOf(Floats("damaged", {})), 0);
  const RowObserver observer = Run();
  ASSERT_EQ(observer.rows.size(), 2u);
  EXPECT_EQ(observer.rows[0].verdict(), v1::SKIPPED);
  EXPECT_THAT(observer.rows[0].reason(), StartsWith("golden tensor: "));
  EXPECT_EQ(observer.rows[1].verdict(), v1::FAIL);
  EXPECT_TRUE(observer.rows[1].sampled());
}

TEST_F(SampleRowsTest, SampledElementsAreOneRowOfLogits) {
  PolicySpec spec;
  spec.metric_sets = compute::kTopKSet;
  plan_.policy = *Policy::Create(spec);
  std::vector<float> golden(kElements);
  for (size_t i = 0; i < kElements; ++i) golden[i] = static_cast<float>(i);
  std::vector<float> target = golden;
  target[1] += 0.125F;
  RecordedTensor golden_tensor = Sampled(Floats("op", golden));
  RecordedTensor target_tensor = Floats("op", target);
  golden_tensor.shape = target_tensor.shape = {kElements / 100, 100};
  const v1::ComparisonRow row = RowOf(target_tensor, golden_tensor);
  EXPECT_TRUE(row.sampled());
  EXPECT_EQ(MetricOf(row, "argmax_agreement"), 1);
  EXPECT_EQ(MetricOf(row, "top_k_overlap"), 1);
}

}  // namespace
}  // namespace msitd::compare
