// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/closing_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kLeastFloat = std::numeric_limits<float>::lowest();

v1::ComparisonRow CompareScores(const RecordedTensor& golden,
                                const RecordedTensor& target,
                                Reading reading = Reading::kBytes,
                                Policy policy = {}) {
  testing::FakeStore store;
  RunRecorder(store, "g").Record(golden);
  RunRecorder(store, "t").Record(target);
  ComparisonPlan plan{"g", "t", {}, std::move(policy)};
  plan.reading = reading;
  RowObserver observer;
  EXPECT_TRUE(ComparisonEngine(store, plan, observer).Run().ok());
  EXPECT_EQ(observer.rows.size(), 1u);
  return observer.rows.front();
}

RecordedTensor Scores(const std::vector<float>& values) {
  return Floats("scores", values);
}

double ValueOf(const v1::ComparisonRow& row, std::string_view name) {
  for (const v1::MetricValue& metric : row.metrics()) {
    if (metric.metric() == name) return metric.value();
  }
  return std::nan("");
}

TEST(ClosingValueTest, OpenPlacesDecide) {
  const std::vector<float> values = {-1e4F, -65504, -1e9F, kLeastFloat,
                                     -kInfinite};
  for (const float golden : values) {
    for (const float target : values) {
      for (const Reading reading : {Reading::kBytes, Reading::kUnproven}) {
        // Adding a score of 4 does not change a large closing value.
        const v1::ComparisonRow equal = CompareScores(
            Scores({1.5F, golden + 4, 2, golden - 3}),
            Scores({1.5F, target + 3, 2.00001F, target - 3}), reading);
        EXPECT_EQ(equal.verdict(), v1::PASS) << equal.reason();
        // The norm of the closed places would hide this difference.
        const v1::ComparisonRow wrong = CompareScores(
            Scores({1.5F, golden + 4, 2, golden - 3}),
            Scores({1.5F, target + 4, 2.01F, target - 3}), reading);
        EXPECT_EQ(wrong.verdict(), v1::FAIL) << golden << " " << target;
        EXPECT_NEAR(ValueOf(wrong, "nl2"), 0.004, 1e-6);
        EXPECT_NEAR(ValueOf(wrong, "scaled_max_abs"), 0.005, 1e-6);
        EXPECT_EQ(ValueOf(wrong, "mismatch_count"), 1);
      }
    }
  }
}

TEST(ClosingValueTest, RowsSayWhatWasLeftOut) {
  EXPECT_EQ(CompareScores(Scores({1, -kInfinite, 2, -kInfinite}),
                          Scores({1, -65504, 2, -65503}))
                .reason(),
            "2 of 4 places are closed in both runs, target down to -65504, "
            "golden down to -inf, and left out");
  EXPECT_EQ(CompareScores(Scores({1, -1e9F}), Scores({2, -1e9F})).reason(),
            "nl2 = 1, needs <= 1e-4; largest difference at [0]: target 2, "
            "golden 1; 1 of 2 places are closed in both runs, target down to "
            "-1e+09, golden down to -1e+09, and left out");
}

TEST(ClosingValueTest, PlacesThatAreClosedOnOneSideFail) {
  const float close = -65504;
  for (const Reading reading : {Reading::kBytes, Reading::kUnproven}) {
    EXPECT_EQ(CompareScores(Scores({1, close, 2, close}),
                            Scores({1, close, 2, 3}), reading)
                  .verdict(),
              v1::FAIL);
    EXPECT_EQ(CompareScores(Scores({1, close, 2, 3}),
                            Scores({1, -1e9F, -1e9F, 3}), reading)
                  .verdict(),
              v1::FAIL);
    EXPECT_EQ(CompareScores(Scores({1, -kInfinite, 2, 3}),
                            Scores({1, -kInfinite, -kInfinite, 3}), reading)
                  .verdict(),
              v1::FAIL);
  }
}

TEST(ClosingValueTest, SumsOfTwoMasksAreClosedToo) {
  EXPECT_EQ(CompareScores(Scores({1, -1e9F, -2e9F, 2}),
                          Scores({1, -65504, -131008, 2}))
                .verdict(),
            v1::PASS);
  // Twice the closing value does not close a place unless the single value
  // occurs as well.
  EXPECT_EQ(
      CompareScores(Scores({1, -1e9F, -1e9F, 2}), Scores({1, -2e9F, -2e9F, 2}))
          .verdict(),
      v1::FAIL);
}

TEST(ClosingValueTest, LargeActivationsAreNoMask) {
  // A value that is neither closing nor far from closing values.
  for (const float other : {-9e3F, 3e4F, -2500.0F}) {
    EXPECT_EQ(
        CompareScores(Scores({1, -1e4F, other}), Scores({1, -65504, other}))
            .verdict(),
        v1::FAIL)
        << other;
  }
  for (const float least : {-5e3F, -2e5F, -32768.0F}) {
    EXPECT_EQ(CompareScores(Scores({1, -1e4F}), Scores({1, least})).verdict(),
              v1::FAIL)
        << least;
  }
  // An activation that overflows in a narrow dtype.
  std::vector<float> golden(64, 1);
  std::vector<float> target(64, 1);
  golden[9] = -1e5F;
  target[9] = -kInfinite;
  EXPECT_EQ(CompareScores(Scores(golden), Scores(target)).verdict(), v1::FAIL);
  golden[9] = target[9] = -65504;
  target[9] = -kInfinite;
  EXPECT_EQ(CompareScores(Scores(golden), Scores(target)).verdict(), v1::FAIL);
  // Values that only resemble closing values must be equal.
  EXPECT_EQ(
      CompareScores(Scores({1, -1e5F, 2}), Scores({1, -1e4F, 2})).verdict(),
      v1::FAIL);
  for (const Io io : {Io::kGradInput, Io::kWeight, Io::kState}) {
    RecordedTensor golden = Scores({1, -65504, 2});
    RecordedTensor target = Scores({1, -1e9F, 2});
    golden.io = target.io = io;
    EXPECT_EQ(CompareScores(golden, target).verdict(), v1::FAIL);
  }
}

TEST(ClosingValueTest, NarrowTypesHaveTheirOwn) {
  RecordedTensor narrow = Bfloats("scores", {1, -65536, 2, -65536});
  EXPECT_EQ(CompareScores(Scores({1, -1e9F, 2, -1e9F}), narrow).verdict(),
            v1::PASS);
  narrow = Bfloats("scores", {1, -65536, 3, -65536});
  EXPECT_EQ(CompareScores(Scores({1, -1e9F, 2, -1e9F}), narrow).verdict(),
            v1::FAIL);
}

TEST(ClosingValueTest, RulesOfTheUserAskOfAllPlaces) {
  PolicySpec spec;
  spec.rules = {{"*", "max_abs <= 1"}};
  EXPECT_EQ(CompareScores(Scores({1, -1e9F}), Scores({1, -65504}),
                          Reading::kBytes, *Policy::Create(spec))
                .verdict(),
            v1::FAIL);
}

TEST(ClosingValueTest, SamplesAreJudgedAsTheyAre) {
  std::vector<float> golden(5000, -1e9F);
  std::vector<float> target(5000, -65504);
  golden[1] = target[1] = 1;
  EXPECT_EQ(CompareScores(Scores(golden), Scores(target), Reading::kSamples)
                .verdict(),
            v1::FAIL);
  EXPECT_EQ(CompareScores(Scores(golden), Scores(target)).verdict(), v1::PASS);
}

}  // namespace
}  // namespace msitd::compare
