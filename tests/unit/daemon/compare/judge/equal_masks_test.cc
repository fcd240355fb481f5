// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/equal_masks.h"

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

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kLeast = std::numeric_limits<float>::lowest();

RecordedTensor Bools(const std::vector<uint8_t>& values) {
  RecordedTensor out;
  out.op = "mask";
  out.dtype = DType::kBool;
  out.bytes = BytesOf(values);
  out.shape = {static_cast<int64_t>(values.size())};
  return out;
}

RecordedTensor Mask(const std::vector<float>& values) {
  return Floats("mask", values);
}

v1::ComparisonRow Compare(const RecordedTensor& golden,
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

TEST(EqualMasksTest, ClosingValuesMayDiffer) {
  const std::vector<float> values = {-1e4F, -65504, -1e9F, kLeast, -kInf};
  for (const float golden : values) {
    for (const float target : values) {
      for (const Reading reading : {Reading::kBytes, Reading::kUnproven}) {
        const v1::ComparisonRow row =
            Compare(Mask({0, golden, 0, golden}), Mask({0, target, 0, target}),
                    reading);
        EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
      }
    }
  }
  EXPECT_EQ(Compare(Mask({0, -kInf}), Mask({0, -65504})).reason(),
            "equal as masks: target 0 and -65504, golden 0 and -inf");
}

TEST(EqualMasksTest, OtherPlacesFail) {
  EXPECT_EQ(Compare(Mask({0, -kInf, 0}), Mask({0, 0, -65504})).verdict(),
            v1::FAIL);
  EXPECT_EQ(Compare(Mask({0, -1e9F, 0}), Mask({0, -65504, -65504})).verdict(),
            v1::FAIL);
  EXPECT_EQ(Compare(Mask({0, -1e9F, 0}), Mask({0, 0, -1e9F})).verdict(),
            v1::FAIL);
}

TEST(EqualMasksTest, AdditiveMaskEqualsABooleanOne) {
  for (const std::vector<uint8_t>& open :
       {std::vector<uint8_t>{1, 0, 1, 1}, std::vector<uint8_t>{0, 1, 0, 0}}) {
    EXPECT_EQ(Compare(Mask({0, -65504, 0, 0}), Bools(open)).verdict(),
              v1::PASS);
    EXPECT_EQ(Compare(Bools(open), Mask({0, -kInf, 0, 0})).verdict(), v1::PASS);
  }
  EXPECT_EQ(Compare(Mask({0, -65504, 0, 0}), Bools({1, 1, 0, 1})).verdict(),
            v1::FAIL);
  EXPECT_EQ(
      Compare(Mask({0, -65504, 0, -65504}), Bools({0, 1, 1, 0})).verdict(),
      v1::FAIL);
}

TEST(EqualMasksTest, OtherValuesAreNoMask) {
  // With small values, the tensors are scores to which a mask was added.
  for (const float other : {-9e3F, 9e3F, kInf, std::nanf("")}) {
    EXPECT_EQ(
        Compare(Mask({0, -1e9F, other}), Mask({0, -65504, other})).verdict(),
        v1::FAIL)
        << other;
  }
  // One side has two different closing values.
  EXPECT_EQ(
      Compare(Mask({0, -1e9F, -65504}), Mask({0, -1e9F, -2e9F})).verdict(),
      v1::FAIL);
  EXPECT_EQ(Compare(Bools({1, 0}), Bools({0, 1})).verdict(), v1::FAIL);
}

TEST(EqualMasksTest, OtherTensorsOfTwoValuesAreNoMasks) {
  // Gradients of a scaled loss, and values that are not closing values.
  for (const Io io : {Io::kGradInput, Io::kGradOutput, Io::kGradWeight,
                      Io::kWeight, Io::kState}) {
    RecordedTensor golden = Mask({0, -65504, 0});
    RecordedTensor target = Mask({0, -1e9F, 0});
    golden.io = target.io = io;
    EXPECT_EQ(Compare(golden, target).verdict(), v1::FAIL);
  }
  for (const float other : {-9e3F, -3e4F, -32768.0F, -5e5F, -2e9F}) {
    EXPECT_EQ(Compare(Mask({0, 0, -65504}), Mask({0, 0, other})).verdict(),
              v1::FAIL)
        << other;
  }
}

TEST(EqualMasksTest, RulesOfTheUserAskWhatTheyAsk) {
  PolicySpec spec;
  spec.rules = {{"*", "max_abs <= 1"}};
  EXPECT_EQ(Compare(Mask({0, -1e9F}), Mask({0, -65504}), Reading::kBytes,
                    *Policy::Create(spec))
                .verdict(),
            v1::FAIL);
}

}  // namespace
}  // namespace msitd::compare
