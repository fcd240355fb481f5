// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/undecidable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

class UndecidableTest : public ::testing::Test {
 protected:
  // Records a call that gives `made` for `given`, and its gradients.
  static void Record(RunRecorder& run, DType given, float made, DType type,
                     float gradient) {
    const auto add = [&](Io io, DType dtype, float value) {
      const std::vector<float> values = {value, 2 * value, -value, 3 * value};
      RecordedTensor tensor = dtype == DType::kBfloat16
                                  ? Bfloats("m.float", values)
                                  : Floats("m.float", values);
      tensor.io = io;
      run.Record(tensor);
    };
    add(Io::kInput, given, 1);
    add(Io::kOutput, type, made);
    add(Io::kGradOutput, type, gradient);
    add(Io::kGradInput, given, gradient);
  }

  v1::Comparison Compare() {
    RowObserver observer;
    const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    rows_ = observer.rows;
    return observer.comparison;
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
  std::vector<v1::ComparisonRow> rows_;
};

constexpr DType kSingle = DType::kFloat32;
constexpr DType kBrain = DType::kBfloat16;

TEST_F(UndecidableTest, GradientsOfAConversionInOneRunAreNotDecided) {
  Record(golden_, kSingle, 1, kSingle, 5);
  Record(target_, kBrain, 1, kSingle, 9);
  const v1::Comparison comparison = Compare();
  ASSERT_EQ(rows_.size(), 4U);
  EXPECT_EQ(rows_[1].verdict(), v1::PASS);
  for (const int gradient : {2, 3}) {
    EXPECT_EQ(rows_[gradient].verdict(), v1::SKIPPED);
    EXPECT_TRUE(rows_[gradient].not_compared());
    EXPECT_THAT(rows_[gradient].reason(),
                HasSubstr("only the target converts"));
  }
  EXPECT_EQ(comparison.makers_size(), 0);
}

TEST_F(UndecidableTest, GoldenMayBeTheRunThatConverts) {
  Record(golden_, kBrain, 1, kSingle, 9);
  Record(target_, kSingle, 1, kSingle, 5);
  Compare();
  EXPECT_EQ(rows_[2].verdict(), v1::SKIPPED);
  EXPECT_THAT(rows_[2].reason(), HasSubstr("only golden converts"));
}

TEST_F(UndecidableTest, OtherCallsAreJudged) {
  // The target does not convert, the golden result is another tensor, and both
  // runs convert.
  const struct {
    DType golden;
    float golden_made;
    DType target;
    float target_made;
  } cases[] = {{kSingle, 1, kSingle, 1},
               {kSingle, 2, kBrain, 2},
               {kBrain, 1, kBrain, 1}};
  for (const auto& one : cases) {
    testing::FakeStore store;
    RunRecorder golden(store, "g");
    RunRecorder target(store, "t");
    Record(golden, one.golden, one.golden_made, kSingle, 5);
    Record(target, one.target, one.target_made, kSingle, 9);
    RowObserver observer;
    ASSERT_TRUE(ComparisonEngine(store, plan_, observer).Run().ok());
    EXPECT_EQ(observer.rows[2].verdict(), v1::FAIL);
  }
}

// Records a call that writes to `old`, and its result.
void RecordWrite(RunRecorder& run, std::string_view op, float old, float made,
                 int64_t token = 0) {
  RecordedTensor input = Floats(std::string(op), {old, 2 * old, 3 * old});
  RecordedTensor result = Floats(std::string(op), {made, 2 * made, 3 * made});
  input.io = Io::kInput;
  input.token = result.token = token;
  run.Record(input);
  run.Record(result);
}

TEST_F(UndecidableTest, MemoryThatNothingHasWrittenIsNotDecided) {
  RecordWrite(golden_, "Tensor.__setitem__", 5, 1);
  RecordWrite(target_, "Tensor.__setitem__", 9, 1);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[0].verdict(), v1::SKIPPED);
  EXPECT_TRUE(rows_[0].not_compared());
  EXPECT_THAT(rows_[0].reason(), HasSubstr("has written this memory"));
  EXPECT_EQ(rows_[1].verdict(), v1::PASS);
  EXPECT_EQ(comparison.makers_size(), 0);
}

TEST_F(UndecidableTest, ResultOfSuchAWriteIsJudgedAndHasNoKnownCause) {
  RecordWrite(golden_, "Tensor.copy_", 5, 1);
  RecordWrite(target_, "Tensor.copy_", 9, 2);
  const v1::Comparison comparison = Compare();
  EXPECT_EQ(rows_[1].verdict(), v1::FAIL);
  ASSERT_EQ(comparison.makers_size(), 1);
  EXPECT_EQ(comparison.makers(0).kind(), v1::Maker::NOT_KNOWN);
}

TEST_F(UndecidableTest, MemoryThatOneRunHasWrittenIsJudged) {
  golden_.Record(Floats("Torch.zeros", {5, 10, 15}));
  target_.Record(Floats("Torch.zeros", {5, 10, 15}));
  RecordWrite(golden_, "Tensor.__setitem__", 5, 1);
  RecordWrite(target_, "Tensor.__setitem__", 9, 1);
  Compare();
  EXPECT_EQ(rows_[1].verdict(), v1::FAIL);
}

TEST_F(UndecidableTest, CacheOfAnEarlierTokenIsJudgedUnlessItIsOverwritten) {
  RecordWrite(golden_, "Tensor.index_copy_", 5, 1, 1);
  RecordWrite(target_, "Tensor.index_copy_", 9, 2, 1);
  RecordWrite(golden_, "Tensor.copy_", 6, 1, 1);
  RecordWrite(target_, "Tensor.copy_", 8, 1, 1);
  Compare();
  EXPECT_EQ(rows_[0].verdict(), v1::FAIL);
  EXPECT_EQ(rows_[2].verdict(), v1::SKIPPED);
}

// Records the gradient of 4 rows that cancel, and a sum of them.
void RecordSum(RunRecorder& run, Io io, std::string index, float sum,
               float error = 0) {
  const float a = 1 + error;
  RecordedTensor rows =
      Floats("fc", {a, 2, 3, -1, -2, -3, 4, 5, 6, -4, -5, -6});
  rows.shape = {4, 3};
  rows.io = Io::kGradOutput;
  run.Record(rows);
  RecordedTensor made = Floats("fc", {sum, -sum, 2 * sum});
  made.io = io;
  made.index = std::move(index);
  run.Record(made);
}

TEST_F(UndecidableTest, OnlyGradientsOfBiasesMayCancel) {
  const struct {
    Io io;
    const char* index;
    v1::Verdict verdict;
  } cases[] = {{Io::kGradWeight, "bias", v1::PASS},
               {Io::kState, "bias.grad", v1::PASS},
               {Io::kGradWeight, "weight", v1::FAIL},
               {Io::kState, "bias.exp_avg_sq", v1::FAIL}};
  for (const auto& one : cases) {
    testing::FakeStore store;
    RunRecorder golden(store, "g");
    RunRecorder target(store, "t");
    RecordSum(golden, one.io, one.index, 1e-7F);
    RecordSum(target, one.io, one.index, 3e-7F, 1e-6F);
    RowObserver observer;
    ASSERT_TRUE(ComparisonEngine(store, plan_, observer).Run().ok());
    EXPECT_EQ(observer.rows[1].verdict(), one.verdict) << one.index;
  }
}

TEST_F(UndecidableTest, SumsThatAreLargerThanTheirErrorsAreJudged) {
  RecordSum(golden_, Io::kGradWeight, "bias", 1e-7F);
  RecordSum(target_, Io::kGradWeight, "bias", 1e-3F, 1e-6F);
  Compare();
  EXPECT_EQ(rows_[1].verdict(), v1::FAIL);
}

TEST_F(UndecidableTest, OpsThatComputeWithTheContentAreJudged) {
  RecordWrite(golden_, "Tensor.add_", 5, 1);
  RecordWrite(target_, "Tensor.add_", 9, 1);
  Compare();
  EXPECT_EQ(rows_[0].verdict(), v1::FAIL);
}

}  // namespace
}  // namespace msitd::compare
