// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/base/histogram_edges.h"
#include "protos/compute/kernel/reference.h"
#include "protos/compute/number/element.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();
const double kNaN = std::nan("");

// Computes the histogram element by element, from the definition.
Histogram Expected(DType component, const std::vector<std::byte>& bytes,
                   int bin_count, double low, double high) {
  const std::vector<double> edges = HistogramEdges(low, high, bin_count);
  Histogram out;
  out.low = low;
  out.high = high;
  out.counts.resize(static_cast<size_t>(bin_count));
  for (size_t i = 0; i < bytes.size() / ElementBytes(component); ++i) {
    const double x = ReferenceElement(component, bytes.data(), i);
    if (std::isnan(x)) {
      ++out.nan_count;
    } else if (x < low) {
      ++out.below_count;
    } else if (x > high) {
      ++out.above_count;
    } else {
      size_t bin = 0;
      for (size_t edge = 1; low < high && edge + 1 < edges.size(); ++edge) {
        bin += x >= edges[edge];
      }
      ++out.counts[bin];
    }
  }
  return out;
}

Histogram HistogramOf(DType dtype, const std::vector<std::byte>& bytes,
                      int bin_count, double low, double high) {
  HistogramCounter counter(dtype, bin_count, low, high);
  counter.Add(bytes);
  return counter.Result();
}

void ExpectEqual(const Histogram& actual, const Histogram& expected) {
  EXPECT_EQ(actual.low, expected.low);
  EXPECT_EQ(actual.high, expected.high);
  EXPECT_EQ(actual.counts, expected.counts);
  EXPECT_EQ(actual.below_count, expected.below_count);
  EXPECT_EQ(actual.above_count, expected.above_count);
  EXPECT_EQ(actual.nan_count, expected.nan_count);
}

std::vector<std::byte> Doubles(const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(double));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(HistogramEdgesTest, AreThoseOfNumpy) {
  // The values of numpy.linspace(-1, 0.3, 8).
  EXPECT_THAT(HistogramEdges(-1, 0.3, 7),
              ElementsAre(-1.0, -0.8142857142857143, -0.6285714285714286,
                          -0.44285714285714284, -0.2571428571428571,
                          -0.0714285714285714, 0.11428571428571432, 0.3));
}

TEST(HistogramEdgesTest, AscendFromLowToHighWhateverTheRange) {
  const double values[] = {
      -kMax,     -kMax / 2, -0x1p961, -0x1p960, -1e10,        -1,    -kLeast,
      0,         kLeast,    3e-308,   0x1p-896, 100 * kLeast, 1e-10, 1,
      1 + 1e-15, 1e300,     0x1p960,  0x1p961,  kMax};
  for (const double low : values) {
    for (const double high : values) {
      if (low > high) continue;
      for (const int bins : {1, 2, 3, 64, 1000, kHistogramBinsMax}) {
        const std::vector<double> edges = HistogramEdges(low, high, bins);
        ASSERT_EQ(edges.size(), static_cast<size_t>(bins) + 1);
        EXPECT_EQ(edges.front(), low);
        EXPECT_EQ(edges.back(), high);
        EXPECT_TRUE(std::is_sorted(edges.begin(), edges.end()))
            << low << " " << high << " " << bins;
      }
    }
  }
}

TEST(HistogramEdgesTest, OfHugeAndTinyRangesAreApart) {
  const std::vector<double> huge = HistogramEdges(-kMax, kMax, 4);
  const std::vector<double> quarters = {-kMax, -kMax / 2, 0, kMax / 2, kMax};
  for (size_t i = 0; i < huge.size(); ++i) {
    EXPECT_DOUBLE_EQ(huge[i], quarters[i]);
  }
  // Splits 100 steps of the smallest number into 64 bins, whose width is not a
  // multiple of the step.
  const std::vector<double> tiny = HistogramEdges(0, 100 * kLeast, 64);
  EXPECT_EQ(tiny[32], 50 * kLeast);
  EXPECT_LT(tiny[63], tiny[64]);
}

TEST(HistogramTest, AgreesWithItsDefinitionForAllDTypesAndPatterns) {
  for (const DType dtype : Components()) {
    for (const Pattern pattern : kPatterns) {
      const auto bytes = MakeElements(dtype, pattern, 2003, 7);
      FiniteRange range;
      Widen(bytes, dtype, range);
      if (range.is_empty()) range = {0, 0};
      const double middle = range.low / 2 + range.high / 2;
      for (const int bins : {1, 2, 7, 64, kHistogramBinsMax}) {
        for (const FiniteRange limits :
             {range, FiniteRange{range.low, middle}, FiniteRange{-1, 1}}) {
          SCOPED_TRACE(std::string(DTypeName(dtype)) + " " + NameOf(pattern));
          ExpectEqual(HistogramOf(dtype, bytes, bins, limits.low, limits.high),
                      Expected(dtype, bytes, bins, limits.low, limits.high));
        }
      }
    }
  }
}

TEST(HistogramTest, ElementsAtAndBesideEveryEdgeAreInTheRightBin) {
  struct Limits {
    double low;
    double high;
  };
  const Limits all[] = {{0, 1},
                        {-1, 0.3},
                        {-kMax, kMax},
                        {-kMax, -0x1p1000},
                        {0, kMax},
                        {0, 100 * kLeast},
                        {-3 * kLeast, kLeast},
                        {1e-300, 3e-300},
                        {1, 1 + 1e-15},
                        {1, 1 + 1e-12},
                        {1e15, 1e15 + 700},
                        {0x1p62, 0x1p62 + 0x1p20},
                        {-0.1, 1e-17}};
  for (const Limits& limits : all) {
    for (const int bins : {1, 3, 10, 64, 1000, kHistogramBinsMax}) {
      std::vector<double> values = {kNaN, kInf, -kInf, 0, -0.0, kMax, -kMax};
      for (const double edge : HistogramEdges(limits.low, limits.high, bins)) {
        values.push_back(edge);
        values.push_back(std::nextafter(edge, kInf));
        values.push_back(std::nextafter(edge, -kInf));
      }
      const auto bytes = Doubles(values);
      SCOPED_TRACE(testing::Message()
                   << limits.low << " " << limits.high << " " << bins);
      ExpectEqual(
          HistogramOf(DType::kFloat64, bytes, bins, limits.low, limits.high),
          Expected(DType::kFloat64, bytes, bins, limits.low, limits.high));
    }
  }
}

TEST(HistogramTest, RandomRangesAgreeWithTheDefinition) {
  std::mt19937_64 random(11);
  std::uniform_int_distribution<int> exponent(-1060, 1020);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int round = 0; round < 400; ++round) {
    const double center = std::ldexp(unit(random), exponent(random));
    const double width =
        std::abs(std::ldexp(unit(random), std::ilogb(center + kLeast) -
                                              static_cast<int>(random() % 60)));
    const double low = std::max(center - width, -kMax);
    const double high = std::min(center + width, kMax);
    const int bins = 1 + static_cast<int>(random() % kHistogramBinsMax);
    std::vector<double> values;
    for (int i = 0; i < 300; ++i) {
      values.push_back(center + 1.1 * width * unit(random));
    }
    const auto bytes = Doubles(values);
    SCOPED_TRACE(testing::Message() << low << " " << high << " " << bins);
    ExpectEqual(HistogramOf(DType::kFloat64, bytes, bins, low, high),
                Expected(DType::kFloat64, bytes, bins, low, high));
  }
}

TEST(HistogramTest, DoesNotDependOnCuts) {
  for (const DType dtype : {DType::kFloat32, DType::kInt8, DType::kFloat64}) {
    const auto bytes = MakeElements(dtype, Pattern::kMixed, 5000, 3);
    const Histogram whole = HistogramOf(dtype, bytes, 64, -1, 2);
    HistogramCounter counter(dtype, 64, -1, 2);
    const std::span<const std::byte> rest(bytes);
    size_t at = 0;
    for (size_t count = 1; at < bytes.size(); count = count * 3 + 1) {
      const size_t size =
          std::min(count * ElementBytes(dtype), bytes.size() - at);
      counter.Add(rest.subspan(at, size));
      at += size;
    }
    ExpectEqual(counter.Result(), whole);
  }
}

TEST(HistogramTest, ComplexElementsAreTheirComponents) {
  const auto bytes = MakeElements(DType::kFloat32, Pattern::kMixed, 1000, 5);
  ExpectEqual(HistogramOf(DType::kComplex64, bytes, 10, -1, 1),
              HistogramOf(DType::kFloat32, bytes, 10, -1, 1));
}

TEST(HistogramTest, EqualLimitsHaveOneBin) {
  const auto bytes = Doubles({3, 3, 2, 4, kNaN, kInf, -kInf, 3});
  const Histogram got = HistogramOf(DType::kFloat64, bytes, 4, 3, 3);
  EXPECT_THAT(got.counts, ElementsAre(3, 0, 0, 0));
  EXPECT_EQ(got.below_count, 2U);
  EXPECT_EQ(got.above_count, 2U);
  EXPECT_EQ(got.nan_count, 1U);
  const Histogram zero =
      HistogramOf(DType::kFloat64, Doubles({0, -0.0, kLeast}), 3, 0, -0.0);
  EXPECT_THAT(zero.counts, ElementsAre(2, 0, 0));
  EXPECT_EQ(zero.above_count, 1U);
  const std::vector<std::byte> ones(5, std::byte{1});
  EXPECT_THAT(HistogramOf(DType::kBool, ones, 2, 1, 1).counts,
              ElementsAre(5, 0));
}

TEST(HistogramTest, NoElementsAreNoCounts) {
  const Histogram got = HistogramOf(DType::kFloat32, {}, 2, -1, 1);
  EXPECT_THAT(got.counts, ElementsAre(0, 0));
  EXPECT_EQ(got.below_count + got.above_count + got.nan_count, 0U);
}

TEST(WidenTest, TakesFiniteElementsOnly) {
  FiniteRange range;
  Widen(Doubles({kNaN, kInf, -kInf}), DType::kFloat64, range);
  EXPECT_TRUE(range.is_empty());
  Widen(Doubles({kNaN, -0.0, kMax, kInf}), DType::kFloat64, range);
  EXPECT_EQ(range.low, 0);
  EXPECT_FALSE(std::signbit(range.low));
  EXPECT_EQ(range.high, kMax);
  Widen(Doubles({-2}), DType::kFloat64, range);
  EXPECT_EQ(range.low, -2);
  const auto odd =
      MakeElements(DType::kFloat8E4m3fn, Pattern::kAnyBits, 999, 1);
  FiniteRange all;
  Widen(odd, DType::kFloat8E4m3fn, all);
  EXPECT_EQ(all.low, -448);
  EXPECT_EQ(all.high, 448);
}

}  // namespace
}  // namespace msitd::compute
