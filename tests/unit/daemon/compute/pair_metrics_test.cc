// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/pair_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "protos/compute/kernel/reference.h"
#include "protos/compute/number/element.h"
#include "tests/unit/daemon/compute/metric_info.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

PairMetrics MetricsOf(DType target_dtype, const std::vector<std::byte>& target,
                      DType golden_dtype,
                      const std::vector<std::byte>& golden) {
  PairAccumulator accumulator(target_dtype, golden_dtype);
  accumulator.Update(target, golden);
  return accumulator.Finish();
}

PairMetrics MetricsOf(const Values& target, const Values& golden,
                      DType dtype = DType::kFloat32) {
  std::vector<std::byte> t;
  std::vector<std::byte> g;
  for (const double x : target) Append(dtype, x, t);
  for (const double x : golden) Append(dtype, x, g);
  return MetricsOf(dtype, t, dtype, g);
}

Values Repeat(double value, size_t count) { return Values(count, value); }

// The formulas of docs/metrics.md, computed from their definitions.
struct BruteForce {
  long double count = 0;
  long double tt = 0, gg = 0, tg = 0, dd = 0, d = 0, rel = 0;
  long double max_abs = 0, max_rel = 0;
  uint64_t max_index = 0;
  long double kl = 0;

  BruteForce(const Values& target, const Values& golden) {
    for (size_t i = 0; i < target.size(); ++i) {
      if (!std::isfinite(target[i]) || !std::isfinite(golden[i])) continue;
      const long double t = target[i];
      const long double g = golden[i];
      const long double e = std::fabs(t - g);
      ++count;
      tt += t * t, gg += g * g, tg += t * g, dd += e * e, d += e;
      const long double r = e / (g == 0 ? 0x1p-52L : std::fabs(g));
      rel += r;
      max_rel = std::max(max_rel, r);
      if (e > max_abs) {
        max_abs = e;
        max_index = i;
      }
    }
    if (count == target.size()) kl = Kl(target, golden);
  }

  static long double LogSum(const Values& x) {
    const long double most = *std::max_element(x.begin(), x.end());
    long double sum = 0;
    for (const long double e : x) sum += std::exp(e - most);
    return most + std::log(sum);
  }

  static long double Kl(const Values& target, const Values& golden) {
    const long double log_t = LogSum(target);
    const long double log_g = LogSum(golden);
    long double sum = 0;
    for (size_t i = 0; i < target.size(); ++i) {
      const long double log_p = golden[i] - log_g;
      const long double log_q = target[i] - log_t;
      if (log_p > -11000) sum += std::exp(log_p) * (log_p - log_q);
    }
    return std::max(sum, 0.0L);
  }
};

void ExpectRelative(const PairMetrics& metrics, Metric metric,
                    long double expected, double tolerance) {
  ASSERT_TRUE(metrics[metric].has_value()) << InfoOf(metric).name;
  EXPECT_LE(std::fabs(*metrics[metric] - expected),
            tolerance * std::fabs(expected))
      << InfoOf(metric).name << " is " << *metrics[metric] << ", not "
      << static_cast<double>(expected);
}

// `kl_tolerance` is absolute, per unit of magnitude.
void ExpectBruteForce(const PairMetrics& metrics, const Values& target,
                      const Values& golden, double ratio_tolerance,
                      double kl_tolerance) {
  const BruteForce b(target, golden);
  const long double cosine = b.tg / std::sqrt(b.tt * b.gg);
  EXPECT_NEAR(*metrics[Metric::kCosine], static_cast<double>(cosine), 1e-12);
  ExpectRelative(metrics, Metric::kMaxAbs, b.max_abs, 1e-15);
  ExpectRelative(metrics, Metric::kMeanAbs, b.d / b.count, 1e-12);
  ExpectRelative(metrics, Metric::kMaxRel, b.max_rel, ratio_tolerance);
  ExpectRelative(metrics, Metric::kMeanRel, b.rel / b.count, ratio_tolerance);
  ExpectRelative(metrics, Metric::kRmse, std::sqrt(b.dd / b.count), 1e-12);
  ExpectRelative(metrics, Metric::kNl2, std::sqrt(b.dd / b.gg), 1e-12);
  EXPECT_NEAR(*metrics[Metric::kSqnrDb],
              static_cast<double>(10 * std::log10(b.gg / b.dd)), 1e-9);
  ExpectRelative(metrics, Metric::kRel, b.dd / (b.tt + b.gg), 1e-12);
  ExpectRelative(metrics, Metric::kL2Distance, std::sqrt(b.dd), 1e-12);
  EXPECT_EQ(metrics.max_abs_index, b.max_index);
  EXPECT_EQ(metrics.max_abs_target, target[b.max_index]);
  EXPECT_EQ(metrics.max_abs_golden, golden[b.max_index]);
  if (b.count == target.size()) {
    ASSERT_TRUE(metrics[Metric::kKl].has_value());
    EXPECT_NEAR(*metrics[Metric::kKl], static_cast<double>(b.kl),
                kl_tolerance * (1 + static_cast<double>(b.kl)));
  } else {
    EXPECT_FALSE(metrics[Metric::kKl].has_value());
  }
}

Values Decoded(DType dtype, const std::vector<std::byte>& bytes) {
  Values out(bytes.size() / ElementBytes(dtype));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = ReferenceElement(dtype, bytes.data(), i);
  }
  return out;
}

TEST(PairMetricsTest, AgreeWithBruteForceForAllPairsOfDTypes) {
  for (const DType target_dtype : Components()) {
    for (const DType golden_dtype : Components()) {
      SCOPED_TRACE(testing::Message() << DTypeName(target_dtype) << " "
                                      << DTypeName(golden_dtype));
      const auto t = MakeElements(target_dtype, Pattern::kNormal, 700, 21);
      const auto g = MakeElements(golden_dtype, Pattern::kNormal, 700, 22);
      const bool as_float = FitsFloat(target_dtype) && FitsFloat(golden_dtype);
      ExpectBruteForce(MetricsOf(target_dtype, t, golden_dtype, g),
                       Decoded(target_dtype, t), Decoded(golden_dtype, g),
                       as_float ? 1e-6 : 1e-12, as_float ? 1e-6 : 1e-12);
    }
  }
}

TEST(PairMetricsTest, AgreeWithBruteForceOfLargeTensorsThatAreClose) {
  for (const double noise : {1e-6, 1e-3, 1e-1}) {
    auto g = MakeElements(DType::kFloat32, Pattern::kNormal, 300000, 31);
    const auto n = MakeElements(DType::kFloat32, Pattern::kNormal, 300000, 32);
    const Values golden = Decoded(DType::kFloat32, g);
    const Values step = Decoded(DType::kFloat32, n);
    std::vector<std::byte> t;
    for (size_t i = 0; i < golden.size(); ++i) {
      Append(DType::kFloat32, golden[i] + noise * step[i], t);
    }
    ExpectBruteForce(MetricsOf(DType::kFloat32, t, DType::kFloat32, g),
                     Decoded(DType::kFloat32, t), golden, 1e-6, 1e-8);
  }
}

TEST(PairMetricsTest, KlIsThatOfASharpDistributionToo) {
  Values golden;
  Values target;
  for (int i = 0; i < 5000; ++i) {
    golden.push_back(static_cast<float>(40 * std::sin(i * 0.37)));
    target.push_back(static_cast<float>(golden.back() * 1.01 + 0.25));
  }
  ExpectBruteForce(MetricsOf(target, golden), target, golden, 1e-6, 1e-6);
}

TEST(PairMetricsTest, KlSeesNoShiftOfAllElements) {
  Values golden;
  Values target;
  for (int i = 0; i < 640; ++i) {
    golden.push_back(i % 37 * 0.25);
    target.push_back(golden.back() + 96);
  }
  EXPECT_NEAR(*MetricsOf(target, golden)[Metric::kKl], 0, 1e-6);
  EXPECT_EQ(*MetricsOf({100.1}, {3.3})[Metric::kKl], 0);
}

TEST(PairMetricsTest, KlOfHugeElementsIsTheirDistanceToTheWinner) {
  const Values golden = {1e30, 0, 0};
  const Values target = {0, 1e30, 0};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const auto kl = MetricsOf(target, golden, dtype)[Metric::kKl];
    ASSERT_TRUE(kl.has_value());
    EXPECT_NEAR(*kl / 1e30, 1, 1e-7);
  }
}

TEST(PairMetricsTest, AreDefinedForDoublesOfAllMagnitudes) {
  for (const double scale : {1e-320, 1e-200, 1e200, 1e307}) {
    SCOPED_TRACE(scale);
    Values golden;
    Values target;
    for (int i = 0; i < 300; ++i) {
      golden.push_back((1 + i % 7) * scale);
      target.push_back((2 + i % 7) * scale);
    }
    const PairMetrics metrics = MetricsOf(target, golden, DType::kFloat64);
    Values g = golden;
    Values t = target;
    for (double& x : g) x /= scale;
    for (double& x : t) x /= scale;
    const BruteForce b(t, g);
    EXPECT_NEAR(*metrics[Metric::kCosine],
                static_cast<double>(b.tg / std::sqrt(b.tt * b.gg)), 1e-3);
    EXPECT_NEAR(*metrics[Metric::kNl2],
                static_cast<double>(std::sqrt(b.dd / b.gg)), 1e-3);
    EXPECT_NEAR(*metrics[Metric::kRmse] / scale, 1, 1e-3);
    EXPECT_NEAR(*metrics[Metric::kMeanAbs] / scale, 1, 1e-3);
    EXPECT_NEAR(*metrics[Metric::kSqnrDb],
                static_cast<double>(10 * std::log10(b.gg / b.dd)), 1e-2);
  }
}

// The ratios are absent instead of infinite, because their true values are
// within the range of double.
TEST(PairMetricsTest, ADifferenceBeyondDoubleHasNoRatios) {
  const PairMetrics metrics =
      MetricsOf({1.7e308, 1}, {-1.7e308, 1}, DType::kFloat64);
  EXPECT_EQ(*metrics[Metric::kMaxAbs], kInfinity);
  EXPECT_NEAR(*metrics[Metric::kCosine], -1, 1e-15);
  EXPECT_EQ(*metrics[Metric::kMismatchCount], 1);
  for (const Metric metric :
       {Metric::kMeanAbs, Metric::kMaxRel, Metric::kMeanRel, Metric::kRmse,
        Metric::kNl2, Metric::kSqnrDb, Metric::kRel, Metric::kL2Distance}) {
    EXPECT_FALSE(metrics[metric].has_value()) << InfoOf(metric).name;
  }
}

// One side has large magnitudes, and the other side has tiny ones.
TEST(PairMetricsTest, CosineHoldsWhereTheSidesDifferByAllOfDouble) {
  const PairMetrics metrics =
      MetricsOf(Repeat(1e300, 300), Repeat(1e-300, 300), DType::kFloat64);
  EXPECT_NEAR(*metrics[Metric::kCosine], 1, 1e-15);
  EXPECT_EQ(*metrics[Metric::kMaxRel], kInfinity);
  EXPECT_EQ(*metrics[Metric::kNl2], kInfinity);
}

TEST(PairMetricsTest, EmptyPairHasCountsOnly) {
  const PairMetrics metrics = MetricsOf({}, {});
  for (int i = 0; i < kMetricCount; ++i) {
    const auto metric = static_cast<Metric>(i);
    if (metric >= Metric::kMismatchCount &&
        metric <= Metric::kInfMismatchCount) {
      EXPECT_EQ(metrics[metric], 0) << InfoOf(metric).name;
    } else {
      EXPECT_FALSE(metrics[metric].has_value()) << InfoOf(metric).name;
    }
  }
}

TEST(PairMetricsTest, EqualTensorsHaveExactFigures) {
  for (const DType dtype : Components()) {
    for (const Pattern pattern : kPatterns) {
      for (const size_t count : {1, 128, 1000}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " "
                                        << NameOf(pattern) << " " << count);
        const auto bytes = MakeElements(dtype, pattern, count, 41);
        uint64_t finite = 0;
        for (const double x : Decoded(dtype, bytes)) {
          if (std::isfinite(x)) ++finite;
        }
        const PairMetrics actual = MetricsOf(dtype, bytes, dtype, bytes);
        const PairMetrics expected = MetricsOfEqual(count, finite);
        for (int i = 0; i < kMetricCount; ++i) {
          EXPECT_EQ(actual.values[i], expected.values[i])
              << InfoOf(static_cast<Metric>(i)).name;
        }
        EXPECT_EQ(actual.max_abs_index, 0U);
        EXPECT_EQ(actual.max_abs_target, 0);
      }
    }
  }
}

TEST(PairMetricsTest, ZeroTensors) {
  for (const size_t count : {1, 128, 200}) {
    SCOPED_TRACE(count);
    const Values zero = Repeat(0, count);
    const Values one = Repeat(-2, count);
    const PairMetrics both = MetricsOf(zero, Repeat(-0.0, count));
    EXPECT_EQ(both[Metric::kCosine], 1);
    EXPECT_EQ(both[Metric::kNl2], 0);
    EXPECT_EQ(both[Metric::kSqnrDb], kInfinity);
    EXPECT_EQ(both[Metric::kMaxRel], 0);
    EXPECT_EQ(both[Metric::kMismatchCount], 0);
    EXPECT_EQ(both[Metric::kKl], 0);

    const PairMetrics target_zero = MetricsOf(zero, one);
    EXPECT_EQ(target_zero[Metric::kCosine], 0);
    EXPECT_EQ(target_zero[Metric::kNl2], 1);
    EXPECT_EQ(target_zero[Metric::kSqnrDb], 0);
    EXPECT_EQ(target_zero[Metric::kMaxRel], 1);

    const PairMetrics golden_zero = MetricsOf(one, zero);
    EXPECT_EQ(golden_zero[Metric::kCosine], 0);
    EXPECT_EQ(golden_zero[Metric::kNl2], kInfinity);
    EXPECT_EQ(golden_zero[Metric::kSqnrDb], -kInfinity);
    EXPECT_EQ(golden_zero[Metric::kMaxRel], 2 * 0x1p52);
    EXPECT_EQ(golden_zero[Metric::kMeanRel], 2 * 0x1p52);
    EXPECT_EQ(golden_zero[Metric::kRmse], 2);
    EXPECT_EQ(golden_zero[Metric::kMismatchCount], count);
  }
}

TEST(PairMetricsTest, NonFinitePairsAreCountedAndLeftOut) {
  for (const size_t repeat : {1, 50}) {
    Values target;
    Values golden;
    const auto add = [&](double t, double g) {
      target.push_back(t);
      golden.push_back(g);
    };
    for (size_t i = 0; i < repeat; ++i) {
      add(1, 2);
      add(kNaN, kNaN);
      add(kInfinity, kInfinity);
      add(-kInfinity, -kInfinity);
      add(kNaN, 1);
      add(1, kNaN);
      add(kInfinity, -kInfinity);
      add(kInfinity, 1);
      add(1, -kInfinity);
      add(kInfinity, kNaN);
    }
    const PairMetrics metrics = MetricsOf(target, golden);
    EXPECT_EQ(metrics[Metric::kMismatchCount], 7 * repeat);
    EXPECT_EQ(metrics[Metric::kNanMismatchCount], 3 * repeat);
    EXPECT_EQ(metrics[Metric::kInfMismatchCount], 4 * repeat);
    EXPECT_EQ(metrics[Metric::kMaxAbs], 1);
    EXPECT_EQ(metrics[Metric::kMeanAbs], 1);
    EXPECT_EQ(metrics[Metric::kMaxRel], 0.5);
    EXPECT_EQ(metrics[Metric::kNl2], 0.5);
    EXPECT_EQ(metrics[Metric::kCosine], 1);
    EXPECT_FALSE(metrics[Metric::kKl].has_value());
  }
}

TEST(PairMetricsTest, WithoutAFinitePairOnlyCountsAreDefined) {
  for (const size_t count : {2, 128, 300}) {
    const PairMetrics metrics =
        MetricsOf(Repeat(kNaN, count), Repeat(1, count));
    EXPECT_EQ(metrics[Metric::kNanMismatchCount], count);
    EXPECT_FALSE(metrics[Metric::kCosine].has_value());
    EXPECT_FALSE(metrics[Metric::kMaxAbs].has_value());
    EXPECT_FALSE(metrics[Metric::kKl].has_value());
  }
}

TEST(PairMetricsTest, TheFirstOfEqualLargestDifferencesIsReported) {
  Values golden = Repeat(1, 1000);
  Values target = golden;
  target[333] = 6;
  target[334] = -4;
  target[900] = 6;
  const PairMetrics metrics = MetricsOf(target, golden);
  EXPECT_EQ(metrics[Metric::kMaxAbs], 5);
  EXPECT_EQ(metrics.max_abs_index, 333U);
  EXPECT_EQ(metrics.max_abs_target, 6);
  EXPECT_EQ(metrics.max_abs_golden, 1);
  EXPECT_EQ(metrics[Metric::kMismatchCount], 3);
}

TEST(PairMetricsTest, OneWrongElementOfAMillionIsSeen) {
  const auto g = MakeElements(DType::kBfloat16, Pattern::kNormal, 1 << 20, 51);
  auto t = g;
  t[2 * 777777] = std::byte{0};
  t[2 * 777777 + 1] = std::byte{0x45};  // 2048
  const PairMetrics metrics =
      MetricsOf(DType::kBfloat16, t, DType::kBfloat16, g);
  EXPECT_EQ(metrics[Metric::kMismatchCount], 1);
  EXPECT_EQ(metrics.max_abs_index, 777777U);
  EXPECT_EQ(metrics.max_abs_target, 2048);
}

TEST(PairMetricsTest, ComplexElementsCountAsTheirComponents) {
  const auto t = MakeElements(DType::kFloat32, Pattern::kNormal, 600, 61);
  const auto g = MakeElements(DType::kFloat64, Pattern::kNormal, 600, 62);
  const PairMetrics complex =
      MetricsOf(DType::kComplex64, t, DType::kComplex128, g);
  const PairMetrics real = MetricsOf(DType::kFloat32, t, DType::kFloat64, g);
  for (int i = 0; i < kMetricCount; ++i) {
    EXPECT_EQ(complex.values[i], real.values[i]);
  }
  EXPECT_EQ(complex[Metric::kMismatchCount], 600);
}

TEST(PairAccumulatorTest, CutsAtItsBlocksChangeNoBit) {
  constexpr size_t kCut = PairAccumulator::kPairBlockElements;
  const auto t = MakeElements(DType::kFloat32, Pattern::kMixed, 10000, 71);
  const auto g = MakeElements(DType::kFloat16, Pattern::kMixed, 10000, 72);
  PairAccumulator pieces(DType::kFloat32, DType::kFloat16);
  const std::span<const std::byte> target = t;
  const std::span<const std::byte> golden = g;
  pieces.Update(target.first(4 * kCut), golden.first(2 * kCut));
  pieces.Update(target.subspan(4 * kCut), golden.subspan(2 * kCut));
  PairAccumulator moved = std::move(pieces);
  const PairMetrics whole = MetricsOf(DType::kFloat32, t, DType::kFloat16, g);
  for (int i = 0; i < kMetricCount; ++i) {
    EXPECT_EQ(moved.Finish().values[i], whole.values[i]);
  }
  EXPECT_EQ(moved.Finish().max_abs_index, whole.max_abs_index);
}

template <typename T>
std::vector<std::byte> RawBytes(const std::vector<T>& values) {
  const auto view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

TEST(PairMetricsTest, IntegersThatRoundToTheSameDoubleStillMismatch) {
  const auto mismatches = [](auto target, auto golden, DType dtype) {
    return MetricsOf(dtype, RawBytes(target), dtype,
                     RawBytes(golden))[Metric::kMismatchCount];
  };
  constexpr int64_t kBig = (int64_t{1} << 62) + 1;
  using Signed = std::vector<int64_t>;
  EXPECT_EQ(
      mismatches(Signed{kBig, 1, 5}, Signed{kBig + 1, 1, 6}, DType::kInt64), 2);
  EXPECT_EQ(mismatches(Signed{kBig, -kBig}, Signed{kBig, -kBig}, DType::kInt64),
            0);
  using Unsigned = std::vector<uint64_t>;
  EXPECT_EQ(mismatches(Unsigned{~uint64_t{0}}, Unsigned{~uint64_t{1}},
                       DType::kUint64),
            1);
}

TEST(PairMetricsTest, DifferencesOfLongIntegersAreExact) {
  constexpr int64_t kBig = (int64_t{1} << 62) + 1;
  // Whole blocks and a remainder, with occasional large integers.
  std::vector<int64_t> target(300, 7);
  std::vector<int64_t> golden(300, 7);
  target[10] = kBig + 1;
  golden[10] = kBig;
  target[140] = 9;
  target[299] = -kBig;
  golden[299] = -kBig + 3;
  const PairMetrics metrics = MetricsOf(DType::kInt64, RawBytes(target),
                                        DType::kInt64, RawBytes(golden));
  EXPECT_EQ(metrics[Metric::kMismatchCount], 3);
  EXPECT_EQ(metrics[Metric::kMaxAbs], 3);
  EXPECT_EQ(metrics.max_abs_index, 299);
  EXPECT_EQ(metrics[Metric::kL2Distance], std::sqrt(1 + 4 + 9));
  EXPECT_EQ(metrics[Metric::kMeanAbs], 6.0 / 300);
}

TEST(PairMetricsTest, LongIntegersOfTwoTypesAreComparedAsTheyAre) {
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;
  const std::vector<int64_t> target = {kBig, -1, kBig};
  const std::vector<uint64_t> golden = {uint64_t{1} << 53, ~uint64_t{0}, kBig};
  PairMetrics metrics = MetricsOf(DType::kInt64, RawBytes(target),
                                  DType::kUint64, RawBytes(golden));
  EXPECT_EQ(metrics[Metric::kMismatchCount], 2);
  EXPECT_EQ(metrics[Metric::kMaxAbs], 0x1p64);
  const std::vector<double> reals = {0x1p53, kNaN, 0x1p53 + 4};
  metrics = MetricsOf(DType::kInt64, RawBytes(target), DType::kFloat64,
                      RawBytes(reals));
  EXPECT_EQ(metrics[Metric::kMismatchCount], 3);
  EXPECT_EQ(metrics[Metric::kMaxAbs], 3);
  EXPECT_EQ(metrics.max_abs_index, 2);
}

TEST(PairMetricsTest, TheLargestDifferenceOfIntegersHasAllDigits) {
  constexpr int64_t kBig = (int64_t{1} << 60) + 1;
  const std::vector<int64_t> target = {5, kBig, 7};
  const std::vector<int64_t> golden = {5, -kBig, 6};
  PairMetrics metrics = MetricsOf(DType::kInt64, RawBytes(target),
                                  DType::kInt64, RawBytes(golden));
  EXPECT_EQ(metrics.max_abs_index, 1u);
  EXPECT_EQ(metrics.max_abs_target_integer, absl::int128(kBig));
  EXPECT_EQ(metrics.max_abs_golden_integer, absl::int128(-kBig));
  // These values are exact in double.
  metrics = MetricsOf(DType::kInt64, RawBytes(golden), DType::kInt64,
                      RawBytes(golden));
  EXPECT_FALSE(metrics.max_abs_target_integer.has_value());
  const std::vector<float> floats = {5, 1, 6};
  metrics = MetricsOf(DType::kInt64, RawBytes(target), DType::kFloat32,
                      RawBytes(floats));
  EXPECT_EQ(metrics.max_abs_target_integer, absl::int128(kBig));
  EXPECT_FALSE(metrics.max_abs_golden_integer.has_value());
}

}  // namespace
}  // namespace msitd::compute
