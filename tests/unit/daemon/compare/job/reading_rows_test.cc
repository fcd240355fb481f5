// SPDX-License-Identifier: Apache-2.0
// Tests of comparisons that do not read all bytes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kElements = 3000;
constexpr uint64_t kPairBytes = 2 * kElements * sizeof(float);

std::vector<float> Values() {
  std::vector<float> values(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    values[i] = static_cast<float>(i % 64) + 1;
  }
  return values;
}

std::vector<float> Scaled(float by) {
  std::vector<float> values = Values();
  for (float& value : values) value *= by;
  return values;
}

class ReadingRowsTest : public ::testing::Test {
 protected:
  void Record(const RecordedTensor& target, const RecordedTensor& golden) {
    golden_.Record(golden);
    target_.Record(target);
  }

  RowObserver Run(Reading reading) {
    plan_.reading = reading;
    RowObserver observer;
    const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    return observer;
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
};

TEST_F(ReadingRowsTest, FirstProvenPairsOfAGroupAreReadAndOthersAreNot) {
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kProvenReadMax + 3; ++i) {
      RecordedTensor golden = Floats(fmt::format("op{}", i), Values());
      RecordedTensor target = Floats(fmt::format("op{}", i), Scaled(1.5F));
      golden.rank = target.rank = rank;
      Record(target, golden);
    }
  }
  const RowObserver bytes = Run(Reading::kBytes);
  const RowObserver observer = Run(Reading::kUnproven);
  ASSERT_EQ(observer.rows.size(), bytes.rows.size());
  for (size_t i = 0; i < observer.rows.size(); ++i) {
    const v1::ComparisonRow& row = observer.rows[i];
    EXPECT_EQ(row.verdict(), v1::FAIL);
    if (i % (kProvenReadMax + 3) < kProvenReadMax) {
      EXPECT_EQ(row.SerializeAsString(), bytes.rows[i].SerializeAsString());
      continue;
    }
    EXPECT_TRUE(row.unread());
    EXPECT_EQ(row.metrics_size(), 0);
    EXPECT_THAT(row.reason(), StartsWith("nl2 = "));
    EXPECT_THAT(row.reason(),
                HasSubstr("so the summaries of the whole tensors say"));
  }
  EXPECT_EQ(observer.comparison.unread_count(), 2 * 3);
  EXPECT_EQ(bytes.comparison.unread_count(), 0);
  EXPECT_EQ(observer.read_bytes, 2 * kProvenReadMax * kPairBytes);
  EXPECT_EQ(observer.comparison.first_divergence().SerializeAsString(),
            bytes.comparison.first_divergence().SerializeAsString());
}

// The errors of tensors that were not read are unknown, so no maker is reported
// for them.
TEST_F(ReadingRowsTest, NobodyIsSaidToHaveMadeWhatWasNotRead) {
  for (int i = 0; i < kProvenReadMax + 1; ++i) {
    const std::string op = fmt::format("op{}", i);
    Record(Floats(op, Scaled(1.5F)), Floats(op, Values()));
  }
  // The summaries are equal, so the tensor is read.
  std::vector<float> turned = Values();
  for (size_t i = 0; i + 1 < turned.size(); i += 2) {
    std::swap(turned[i], turned[i + 1]);
  }
  Record(Floats("turned", turned), Floats("turned", Values()));
  const RowObserver observer = Run(Reading::kUnproven);
  const v1::ComparisonRow& unread = observer.rows[kProvenReadMax];
  EXPECT_TRUE(unread.unread());
  EXPECT_EQ(unread.origin(), v1::ORIGIN_UNSPECIFIED);
  EXPECT_FALSE(unread.has_amplification());
  // Its inputs may have the same error.
  const v1::ComparisonRow& read = observer.rows.back();
  EXPECT_FALSE(read.unread());
  EXPECT_NE(read.origin(), v1::CREATED);
  EXPECT_FALSE(read.has_amplification());
  EXPECT_TRUE(observer.comparison.has_first_origin());
  EXPECT_EQ(observer.comparison.first_origin().op(), "op0");
}

// Drift has no maker, even if the tensors in between are not read.
TEST_F(ReadingRowsTest, DriftBehindUnreadRowsIsNoOrigin) {
  const auto record = [this](std::string_view op, float error, bool is_proven) {
    std::vector<float> target = Values();
    for (size_t i = 0; i < target.size(); ++i) {
      target[i] *= 1 + (is_proven || i % 2 == 0 ? error : -error);
    }
    // Both sides have the same norm and extremes.
    if (!is_proven) {
      target = Values();
      std::rotate(target.begin(), target.begin() + 3, target.end());
    }
    Record(Floats(op, target), Floats(op, Values()));
  };
  float error = 1e-3F;
  for (int i = 0; i < kProvenReadMax + 6; ++i, error *= 2) {
    record(fmt::format("op{}", i), error, true);
  }
  record("last", error, false);
  const RowObserver bytes = Run(Reading::kBytes);
  const RowObserver unproven = Run(Reading::kUnproven);
  EXPECT_EQ(bytes.rows.back().origin(), v1::PASSED_ON);
  EXPECT_FALSE(unproven.rows.back().unread());
  EXPECT_EQ(unproven.rows.back().origin(), v1::UNKNOWN_INPUTS);
  EXPECT_EQ(unproven.comparison.first_origin().SerializeAsString(),
            bytes.comparison.first_origin().SerializeAsString());
}

TEST_F(ReadingRowsTest, IntegersThatWereNotReadHaveNoOrigin) {
  for (int i = 0; i < kProvenReadMax + 1; ++i) {
    RecordedTensor golden;
    golden.op = fmt::format("op{}", i);
    golden.dtype = DType::kInt64;
    golden.shape = {2};
    golden.bytes = BytesOf(std::vector<int64_t>{1, 2});
    RecordedTensor target = golden;
    target.bytes = BytesOf(std::vector<int64_t>{1, 9});
    Record(target, golden);
  }
  const v1::ComparisonRow row = Run(Reading::kUnproven).rows.back();
  EXPECT_TRUE(row.unread());
  EXPECT_EQ(row.origin(), v1::ORIGIN_UNSPECIFIED);
  EXPECT_FALSE(row.has_amplification());
}

TEST_F(ReadingRowsTest, TypesAreNamedIfTheyDiffer) {
  PolicySpec spec;
  spec.preset = Preset::kBitwise;
  plan_.policy = *Policy::Create(spec);
  RecordedTensor target = Floats("op", std::vector<float>(2000));
  RecordedTensor golden = target;
  golden.dtype = DType::kInt32;
  Record(target, golden);
  EXPECT_EQ(Run(Reading::kSamples).rows[0].reason(),
            "the types differ; the bytes were not read");
}

TEST_F(ReadingRowsTest, HashesProveWhereOnlyEqualBytesPass) {
  PolicySpec spec;
  spec.preset = Preset::kBitwise;
  plan_.policy = *Policy::Create(spec);
  std::vector<float> values = Values();
  values[1] += 1;
  for (int i = 0; i < kProvenReadMax + 1; ++i) {
    const std::string op = fmt::format("op{}", i);
    Record(Floats(op, values), Floats(op, Values()));
  }
  const RowObserver unproven = Run(Reading::kUnproven);
  EXPECT_EQ(unproven.comparison.unread_count(), 1);
  EXPECT_EQ(unproven.rows.back().reason(),
            "the hashes differ; the bytes were not read");
  EXPECT_EQ(unproven.rows.back().origin(), v1::ORIGIN_UNSPECIFIED);
  const RowObserver samples = Run(Reading::kSamples);
  EXPECT_EQ(samples.comparison.unread_count(), kProvenReadMax + 1);
  EXPECT_EQ(samples.read_bytes, 0u);
}

TEST_F(ReadingRowsTest, SamplesAreThoseOfRunsThatKeptNoMore) {
  RunRecorder kept_golden(store_, "kept-g");
  RunRecorder kept_target(store_, "kept-t");
  const auto record = [&](RecordedTensor target, RecordedTensor golden) {
    Record(target, golden);
    golden.chunk_flags = target.chunk_flags = chunk::kSampleFlag;
    kept_golden.Record(golden);
    kept_target.Record(target);
  };
  record(Floats("near", Scaled(1.00001F)), Floats("near", Values()));
  record(Floats("far", Scaled(1.25F)), Floats("far", Values()));
  record(Floats("equal", Values()), Floats("equal", Values()));
  // The difference is between the sampled elements.
  std::vector<float> missed = Values();
  missed[1] = 1e6F;
  record(Floats("missed", missed), Floats("missed", Values()));
  const RowObserver observer = Run(Reading::kSamples);
  plan_.golden_run = "kept-g";
  plan_.target_run = "kept-t";
  const RowObserver kept = Run(Reading::kBytes);
  ASSERT_EQ(observer.rows.size(), kept.rows.size());
  for (size_t i = 0; i < kept.rows.size(); ++i) {
    v1::ComparisonRow row = observer.rows[i];
    row.mutable_golden()->set_name(kept.rows[i].golden().name());
    row.mutable_target()->set_name(kept.rows[i].target().name());
    EXPECT_EQ(row.SerializeAsString(), kept.rows[i].SerializeAsString())
        << row.ShortDebugString();
  }
  EXPECT_EQ(observer.comparison.sampled_count(), 3);
  // In this comparison, samples are extracted from the bytes.
  EXPECT_EQ(observer.read_bytes, 3 * kPairBytes);
}

TEST_F(ReadingRowsTest, BytesOfSmallTensorsAreTheirSamples) {
  Record(Floats("op", {1, 2, 5}), Floats("op", {1, 2, 3}));
  const RowObserver observer = Run(Reading::kSamples);
  EXPECT_FALSE(observer.rows[0].sampled());
  EXPECT_THAT(observer.rows[0].reason(), HasSubstr("target 5, golden 3"));
}

// Whatever the elements are, a pair that fails according to its summaries also
// fails according to its bytes.
TEST_F(ReadingRowsTest, ProofsAgreeWithTheBytes) {
  std::mt19937 random(7);
  constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            0.0F,
                            -0.0F,
                            std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max()};
  std::normal_distribution<float> normal;
  const auto chance = [&](int one_in) { return random() % one_in == 0; };
  for (int i = 0; i < 600; ++i) {
    const std::string op = fmt::format("op{}", i);
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 60) - 30);
    const float error = std::ldexp(1.0F, -static_cast<int>(random() % 24));
    std::vector<float> golden(1 + random() % 40);
    for (float& value : golden) value = scale * normal(random);
    std::vector<float> target = golden;
    for (float& value : target) value *= 1 + error * normal(random);
    for (std::vector<float>* values : {&golden, &target}) {
      if (chance(4)) values->at(random() % values->size()) = kOdd[random() % 7];
    }
    if (chance(2)) {
      Record(Bfloats(op, target), Floats(op, golden));
    } else {
      Record(Floats(op, target), Floats(op, golden));
    }
  }
  const RowObserver bytes = Run(Reading::kBytes);
  const RowObserver unproven = Run(Reading::kUnproven);
  ASSERT_EQ(bytes.rows.size(), 600u);
  for (size_t i = 0; i < bytes.rows.size(); ++i) {
    EXPECT_EQ(unproven.rows[i].verdict(), bytes.rows[i].verdict())
        << bytes.rows[i].ShortDebugString() << "\n"
        << unproven.rows[i].ShortDebugString();
  }
  EXPECT_GT(unproven.comparison.unread_count(), 100);
  EXPECT_GT(unproven.comparison.fail_count(),
            unproven.comparison.unread_count());
}

}  // namespace
}  // namespace msitd::compare
