// SPDX-License-Identifier: Apache-2.0

// Tests of the metrics of rows and channels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "daemon/compute/pair_metrics.h"
#include "protos/compute/kernel/reference.h"
#include "protos/compute/number/element.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

std::vector<std::byte> BytesOf(DType component, const Values& values) {
  std::vector<std::byte> out;
  for (const double value : values) Append(component, value, out);
  return out;
}

// Passes multiples of a block at a time, as streams do.
PairMetrics MetricsOf(DType target_dtype, std::span<const std::byte> target,
                      DType golden_dtype, std::span<const std::byte> golden,
                      const RowShape& shape, uint64_t seed = 0) {
  PairAccumulator accumulator(target_dtype, golden_dtype, shape);
  std::mt19937_64 random(seed);
  while (!target.empty()) {
    const size_t left = target.size() / ElementBytes(target_dtype);
    const size_t wanted = PairAccumulator::kPairBlockElements *
                          (seed == 0 ? left : 1 + random() % 3);
    const size_t now = std::min(wanted, left);
    accumulator.Update(target.first(now * ElementBytes(target_dtype)),
                       golden.first(now * ElementBytes(golden_dtype)));
    target = target.subspan(now * ElementBytes(target_dtype));
    golden = golden.subspan(now * ElementBytes(golden_dtype));
  }
  return accumulator.Finish();
}

PairMetrics MetricsOf(const Values& target, const Values& golden,
                      const RowShape& shape, DType dtype = DType::kFloat32) {
  return MetricsOf(dtype, BytesOf(ComponentOf(dtype), target), dtype,
                   BytesOf(ComponentOf(dtype), golden), shape);
}

// The formulas of docs/metrics.md, computed from their definitions.
class Expected {
 public:
  // Each element has `parts` components.
  Expected(const Values& target, const Values& golden, const RowShape& shape,
           size_t parts = 1)
      : rows_(shape.row_count), channels_(shape.row_elements) {
    for (size_t i = 0; i < target.size(); ++i) {
      if (!std::isfinite(target[i]) || !std::isfinite(golden[i])) continue;
      const long double d = static_cast<long double>(target[i]) - golden[i];
      const long double g = golden[i];
      const size_t element = i / parts;
      Add(d, g, rows_[element / shape.row_elements]);
      Add(d, g, channels_[element % shape.row_elements]);
      Add(d, g, whole_);
    }
  }

  void Check(const PairMetrics& metrics, double tolerance) const {
    CheckPart(metrics[Metric::kRowNl2Max], metrics[Metric::kRowNl2P50],
              metrics.worst_row, rows_, tolerance);
    CheckPart(metrics[Metric::kChannelNl2Max], metrics[Metric::kChannelNl2P50],
              metrics.worst_channel, channels_, tolerance);
  }

 private:
  struct Squares {
    long double difference = 0;
    long double golden = 0;
  };

  static void Add(long double d, long double g, Squares& to) {
    to.difference += d * d;
    to.golden += g * g;
  }

  std::vector<long double> RatiosOf(const std::vector<Squares>& parts,
                                    long double share) const {
    const long double floor = share * std::sqrt(whole_.golden / parts.size());
    std::vector<long double> out;
    for (const Squares& part : parts) {
      const long double divisor = std::max(std::sqrt(part.golden), floor);
      out.push_back(
          part.difference == 0 ? 0 : std::sqrt(part.difference) / divisor);
    }
    return out;
  }

  static void ExpectNear(const std::optional<double>& actual,
                         long double expected, double tolerance) {
    ASSERT_TRUE(actual.has_value());
    if (std::isinf(expected)) {
      EXPECT_EQ(*actual, kInfinity);
    } else {
      // Squares below this value vanish next to much larger ones.
      constexpr long double kDust = 1e-100;
      EXPECT_LE(std::fabs(*actual - expected), tolerance * expected + kDust)
          << *actual << ", not " << static_cast<double>(expected);
    }
  }

  void CheckPart(const std::optional<double>& max,
                 const std::optional<double>& median, uint64_t place,
                 const std::vector<Squares>& parts, double tolerance) const {
    std::vector<long double> ratios = RatiosOf(parts, 0x1p-20L);
    const long double largest = *std::max_element(ratios.begin(), ratios.end());
    ExpectNear(max, largest, tolerance);
    ASSERT_LT(place, ratios.size());
    EXPECT_GE(ratios[place], largest * (1 - tolerance));
    ratios = RatiosOf(parts, 0x1p-12L);
    std::sort(ratios.begin(), ratios.end());
    ExpectNear(median, ratios[(ratios.size() - 1) / 2], tolerance);
  }

  std::vector<Squares> rows_;
  std::vector<Squares> channels_;
  Squares whole_;
};

Values Decoded(DType component, const std::vector<std::byte>& bytes) {
  Values out(bytes.size() / ElementBytes(component));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = ReferenceElement(component, bytes.data(), i);
  }
  return out;
}

constexpr RowShape kShapes[] = {{2, 1},   {700, 1},  {3, 5},    {64, 8},
                                {40, 33}, {10, 128}, {9, 1000}, {130, 64},
                                {511, 3}, {512, 2},  {3, 4096}, {2, 5000}};

TEST(RowErrorsTest, AgreeWithBruteForceForAllDTypesAndShapes) {
  for (const DType dtype : Components()) {
    for (const RowShape& shape : kShapes) {
      for (const Pattern pattern : {Pattern::kNormal, Pattern::kMixed}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " [" << shape.row_count << ","
                     << shape.row_elements << "] " << NameOf(pattern));
        const size_t count = shape.row_count * shape.row_elements;
        const auto t = MakeElements(dtype, pattern, count, 41);
        const auto g = MakeElements(dtype, pattern, count, 42);
        const PairMetrics metrics = MetricsOf(dtype, t, dtype, g, shape);
        if (!metrics[Metric::kNl2].has_value()) continue;
        Expected(Decoded(dtype, t), Decoded(dtype, g), shape)
            .Check(metrics, FitsFloat(dtype) ? 1e-5 : 1e-12);
      }
    }
  }
}

TEST(RowErrorsTest, DoNotDependOnTheCutsBetweenUpdates) {
  const RowShape shape = {37, 1111};
  for (const DType dtype : {DType::kBfloat16, DType::kFloat64, DType::kInt8}) {
    const auto t = MakeElements(dtype, Pattern::kMixed, 37 * 1111, 51);
    const auto g = MakeElements(dtype, Pattern::kMixed, 37 * 1111, 52);
    const PairMetrics whole = MetricsOf(dtype, t, dtype, g, shape);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const PairMetrics cut = MetricsOf(dtype, t, dtype, g, shape, seed);
      for (int i = 0; i < kMetricCount; ++i) {
        EXPECT_EQ(cut.values[i], whole.values[i]) << i;
      }
      EXPECT_EQ(cut.worst_row, whole.worst_row);
      EXPECT_EQ(cut.worst_channel, whole.worst_channel);
    }
  }
}

// One channel that is much larger than the others hides them from nl2.
TEST(RowErrorsTest, SeeChannelsOfZerosBesideAMassiveActivation) {
  constexpr size_t kRows = 64;
  constexpr size_t kChannels = 1024;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 1);
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    Values golden(kRows * kChannels);
    Values target(kRows * kChannels);
    for (size_t i = 0; i < golden.size(); ++i) {
      const bool is_massive = i % kChannels == 447;
      golden[i] = is_massive ? 10000 : normal(random);
      target[i] = is_massive ? 10000 : 0;
    }
    const auto t = BytesOf(dtype, target);
    const auto g = BytesOf(dtype, golden);
    const PairMetrics metrics =
        MetricsOf(dtype, t, dtype, g, {kRows, kChannels});
    EXPECT_LT(*metrics[Metric::kNl2], 0.004);
    EXPECT_NEAR(*metrics[Metric::kChannelNl2Max], 1, 1e-6);
    EXPECT_NEAR(*metrics[Metric::kChannelNl2P50], 1, 1e-6);
    EXPECT_NE(metrics.worst_channel, 447U);
    Expected(Decoded(dtype, t), Decoded(dtype, g), {kRows, kChannels})
        .Check(metrics, 1e-5);
  }
}

TEST(RowErrorsTest, FindTheWorstRowAndChannel) {
  Values golden(20 * 30, 1);
  Values target = golden;
  target[7 * 30 + 11] = 3;
  const PairMetrics metrics = MetricsOf(target, golden, {20, 30});
  EXPECT_NEAR(*metrics[Metric::kRowNl2Max], 2 / std::sqrt(30), 1e-6);
  EXPECT_EQ(metrics.worst_row, 7U);
  EXPECT_EQ(metrics[Metric::kRowNl2P50], 0);
  EXPECT_NEAR(*metrics[Metric::kChannelNl2Max], 2 / std::sqrt(20), 1e-6);
  EXPECT_EQ(metrics.worst_channel, 11U);
  EXPECT_EQ(metrics[Metric::kChannelNl2P50], 0);
}

// Small values in a row of zeros are measured relative to the norm of other
// rows.
TEST(RowErrorsTest, TakeDustInARowOfZerosForWhatItIs) {
  Values golden(4 * 8, 1);
  std::fill_n(golden.begin() + 8, 8, 0);
  Values target = golden;
  target[9] = 1e-12;
  const PairMetrics metrics = MetricsOf(target, golden, {4, 8});
  Expected(target, golden, {4, 8}).Check(metrics, 1e-5);
  EXPECT_LT(*metrics[Metric::kRowNl2Max], 1e-6);
  EXPECT_GT(*metrics[Metric::kRowNl2Max], 0);
}

TEST(RowErrorsTest, AreInfiniteWhereGoldenIsAllZero) {
  const Values golden(4 * 8);
  Values target = golden;
  target[9] = 1e-40;
  const PairMetrics metrics = MetricsOf(target, golden, {4, 8});
  EXPECT_EQ(metrics[Metric::kRowNl2Max], kInfinity);
  EXPECT_EQ(metrics.worst_row, 1U);
  EXPECT_EQ(metrics[Metric::kChannelNl2Max], kInfinity);
  EXPECT_EQ(metrics.worst_channel, 1U);
  EXPECT_EQ(metrics[Metric::kRowNl2P50], 0);
}

TEST(RowErrorsTest, LeaveOutPairsThatAreNotFinite) {
  const Values golden = {1, 2, kNaN, 4, kInfinity, 6, 7, 8};
  const Values target = {1, 2, 3, 4, kInfinity, 6, kNaN, 8};
  const PairMetrics metrics = MetricsOf(target, golden, {2, 4});
  EXPECT_EQ(metrics[Metric::kRowNl2Max], 0);
  EXPECT_EQ(metrics[Metric::kChannelNl2Max], 0);
}

TEST(RowErrorsTest, OneRowHasTheNl2OfTheWhole) {
  const Values golden = {1, 2, 3};
  const Values target = {1, 2, 4};
  for (const RowShape& shape : {RowShape{}, RowShape{1, 3}}) {
    const PairMetrics metrics = MetricsOf(target, golden, shape);
    EXPECT_EQ(metrics[Metric::kRowNl2Max], metrics[Metric::kNl2]);
    EXPECT_EQ(metrics[Metric::kRowNl2P50], metrics[Metric::kNl2]);
    EXPECT_EQ(metrics[Metric::kChannelNl2Max], std::nullopt);
    EXPECT_EQ(metrics[Metric::kChannelNl2P50], std::nullopt);
  }
}

TEST(RowErrorsTest, AreAbsentOfSamplesAndOfOtherShapes) {
  const Values golden = {1, 2, 3, 4};
  const Values target = {1, 2, 4, 4};
  for (const RowShape& shape :
       {RowShape{0, 2}, RowShape{2, 3}, RowShape{3, 1}, RowShape{2, 0}}) {
    const PairMetrics metrics = MetricsOf(target, golden, shape);
    EXPECT_EQ(metrics[Metric::kRowNl2Max], std::nullopt);
    EXPECT_EQ(metrics[Metric::kChannelNl2P50], std::nullopt);
  }
}

TEST(RowErrorsTest, AreAbsentBeyondTheirLimits) {
  const auto has = [](uint64_t rows, uint64_t channels, Metric metric) {
    const std::vector<std::byte> bytes(rows * channels);
    const PairMetrics metrics =
        MetricsOf(DType::kInt8, bytes, DType::kInt8, bytes, {rows, channels});
    EXPECT_EQ(metrics[metric].has_value(),
              MetricsOfEqual(rows * channels, rows * channels,
                             {rows, channels})[metric]
                  .has_value());
    return metrics[metric].has_value();
  };
  EXPECT_TRUE(has(kRowsMax, 2, Metric::kRowNl2Max));
  EXPECT_FALSE(has(kRowsMax + 1, 2, Metric::kRowNl2Max));
  EXPECT_TRUE(has(kRowsMax + 1, 2, Metric::kChannelNl2Max));
  EXPECT_TRUE(has(2, kChannelsMax, Metric::kChannelNl2Max));
  EXPECT_FALSE(has(2, kChannelsMax + 1, Metric::kChannelNl2Max));
  EXPECT_TRUE(has(2, kChannelsMax + 1, Metric::kRowNl2Max));
}

TEST(RowErrorsTest, TakeComplexElementsAsOneChannel) {
  const RowShape shape = {3, 4};
  Values golden;
  Values target;
  for (int i = 0; i < 24; ++i) {
    golden.push_back(i + 1);
    target.push_back(i == 13 ? 20 : i + 1);
  }
  for (const DType dtype :
       {DType::kComplex32, DType::kComplex64, DType::kComplex128}) {
    const PairMetrics metrics = MetricsOf(target, golden, shape, dtype);
    Expected(target, golden, shape, 2).Check(metrics, 1e-6);
    EXPECT_EQ(metrics.worst_row, 1U);
    EXPECT_EQ(metrics.worst_channel, 2U);
  }
}

TEST(RowErrorsTest, SeeIntegersThatDoubleRounds) {
  const int64_t golden[] = {(int64_t{1} << 60) + 1, 3, 4, 5};
  const int64_t target[] = {int64_t{1} << 60, 3, 4, 5};
  const PairMetrics metrics =
      MetricsOf(DType::kInt64, std::as_bytes(std::span(target)), DType::kInt64,
                std::as_bytes(std::span(golden)), {2, 2});
  EXPECT_DOUBLE_EQ(*metrics[Metric::kRowNl2Max], 0x1p-60);
  EXPECT_DOUBLE_EQ(*metrics[Metric::kChannelNl2Max], 0x1p-60);
}

TEST(RowErrorsTest, TakeAnyMagnitudeOfFloat64) {
  for (const double scale : {1e-300, 1e-150, 1e150, 1e300}) {
    for (const double other : {1e-300, 1.0, 1e300}) {
      SCOPED_TRACE(testing::Message() << scale << " " << other);
      // The first 4,096 elements have one magnitude, and all others have
      // another one.
      Values golden;
      Values target;
      for (int i = 0; i < 3 * 4096; ++i) {
        const double size = i < 4096 ? scale : other;
        golden.push_back(size * (1 + i % 7));
        target.push_back(size * (1 + i % 7 + (i % 5 == 0 ? 0.5 : 0)));
      }
      const RowShape shape = {3, 4096};
      Expected(target, golden, shape)
          .Check(MetricsOf(target, golden, shape, DType::kFloat64), 1e-12);
    }
  }
}

TEST(RowErrorsTest, TakeSmallFloats) {
  for (const double scale : {1e-38, 1e-30, 1e-20, 1e20, 1e37}) {
    Values golden;
    Values target;
    for (int i = 0; i < 2 * 4096; ++i) {
      golden.push_back(static_cast<float>(scale * (1 + i % 7)));
      target.push_back(static_cast<float>(scale * (1 + i % 7 + i % 3)));
    }
    const RowShape shape = {8, 1024};
    Expected(target, golden, shape)
        .Check(MetricsOf(target, golden, shape), 1e-5);
  }
}

TEST(RowErrorsTest, AreAbsentIfADifferenceIsBeyondDouble) {
  const PairMetrics metrics =
      MetricsOf({1e308, 1, 1, 1}, {-1e308, 1, 1, 1}, {2, 2}, DType::kFloat64);
  EXPECT_EQ(metrics[Metric::kRowNl2Max], std::nullopt);
  EXPECT_EQ(metrics[Metric::kChannelNl2Max], std::nullopt);
}

TEST(RowErrorsTest, EqualTensorsHaveTheMetricsOfEqualOnes) {
  for (const RowShape& shape : kShapes) {
    const size_t count = shape.row_count * shape.row_elements;
    const auto bytes =
        MakeElements(DType::kFloat32, Pattern::kNormal, count, 61);
    const PairMetrics measured =
        MetricsOf(DType::kFloat32, bytes, DType::kFloat32, bytes, shape);
    const PairMetrics known = MetricsOfEqual(count, count, shape);
    for (int i = 0; i < kMetricCount; ++i) {
      EXPECT_EQ(measured.values[i], known.values[i]) << i;
    }
  }
  const Values none(8, kNaN);
  EXPECT_EQ(MetricsOf(none, none, {2, 4})[Metric::kRowNl2Max], std::nullopt);
  EXPECT_EQ(MetricsOfEqual(8, 0, {2, 4})[Metric::kRowNl2Max], std::nullopt);
}

// A hidden state of a decoding step, with one massive element.
TEST(RowErrorsTest, ElementsOfABatchOfOneAreChannels) {
  Values golden(128, 1);
  golden[5] = 1e4;
  Values target = golden;
  for (size_t i = 0; i < target.size(); ++i) {
    if (i != 5) target[i] = 0;
  }
  const PairMetrics metrics = MetricsOf(target, golden, {1, 128, true});
  EXPECT_NEAR(*metrics[Metric::kRowNl2P50], std::sqrt(127) / 1e4, 1e-6);
  EXPECT_EQ(metrics[Metric::kRowNl2P50], metrics[Metric::kNl2]);
  // Other elements than the massive one are a thousandth of the average.
  EXPECT_NEAR(*metrics[Metric::kChannelNl2P50], 1, 1e-6);
  EXPECT_EQ(metrics[Metric::kChannelNl2Max], std::nullopt);
}

TEST(RowErrorsTest, FewElementsOrOneDimensionHaveNoChannels) {
  const Values golden(63, 1);
  const Values target(63, 2);
  EXPECT_EQ(MetricsOf(target, golden, {1, 63, true})[Metric::kChannelNl2P50],
            std::nullopt);
  const Values more(64, 1);
  EXPECT_EQ(MetricsOf(more, more, {1, 64})[Metric::kChannelNl2P50],
            std::nullopt);
  EXPECT_EQ(MetricsOf(more, more, {1, 64, true})[Metric::kChannelNl2P50], 0);
}

}  // namespace
}  // namespace msitd::compute
