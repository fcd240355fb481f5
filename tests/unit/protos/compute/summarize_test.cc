// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "protos/compute/digest.h"
#include "protos/compute/kernel/reference.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kDenormMin = std::numeric_limits<double>::denorm_min();

Summary Of(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes;
  for (const double value : values) Append(dtype, value, bytes);
  return Summarize(bytes, dtype);
}

std::vector<double> Repeat(double value, size_t count) {
  return std::vector<double>(count, value);
}

struct Exact {
  Summary counts;
  long double sum = 0;
  long double l1 = 0;
  long double squares = 0;
};

Exact ExactOf(DType component, const std::vector<std::byte>& bytes) {
  Exact out;
  const size_t count = bytes.size() / ElementBytes(component);
  out.counts.count = count;
  for (size_t i = 0; i < count; ++i) {
    const double x = ReferenceElement(component, bytes.data(), i);
    if (std::isnan(x)) {
      ++out.counts.nan_count;
      continue;
    }
    out.counts.min = std::min(out.counts.min, x);
    out.counts.max = std::max(out.counts.max, x);
    if (x == kInfinity) ++out.counts.positive_infinity_count;
    if (x == -kInfinity) ++out.counts.negative_infinity_count;
    if (std::isinf(x)) continue;
    if (x == 0) ++out.counts.zero_count;
    out.sum += x;
    out.l1 += std::fabs(static_cast<long double>(x));
    out.squares += static_cast<long double>(x) * x;
  }
  return out;
}

// The bound in the contract is 1e-6. For the signed sum, it is relative to the
// L1 norm.
void ExpectClose(const Summary& actual, const Exact& exact) {
  EXPECT_EQ(actual.count, exact.counts.count);
  EXPECT_EQ(actual.nan_count, exact.counts.nan_count);
  EXPECT_EQ(actual.positive_infinity_count,
            exact.counts.positive_infinity_count);
  EXPECT_EQ(actual.negative_infinity_count,
            exact.counts.negative_infinity_count);
  EXPECT_EQ(actual.zero_count, exact.counts.zero_count);
  EXPECT_EQ(actual.min, exact.counts.min);
  EXPECT_EQ(actual.max, exact.counts.max);
  const auto squares =
      std::ldexp(static_cast<long double>(actual.sum_squares),
                 static_cast<int>(actual.sum_squares_exponent));
  EXPECT_LE(std::fabs(squares - exact.squares), 1e-6L * exact.squares);
  if (exact.l1 > kMax) {
    EXPECT_EQ(actual.l1, kInfinity);
    return;
  }
  EXPECT_LE(std::fabs(actual.l1 - exact.l1), 1e-6L * exact.l1);
  EXPECT_LE(std::fabs(actual.sum - exact.sum), 1e-6L * exact.l1);
}

TEST(SummarizeTest, IsWithinItsBoundOfExactSumsForAllDTypesAndMagnitudes) {
  for (const DType dtype : Components()) {
    for (const Pattern pattern : kPatterns) {
      for (const size_t count : {1, 7, 128, 1000, 20000}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " "
                                        << NameOf(pattern) << " " << count);
        const auto bytes = MakeElements(dtype, pattern, count, count);
        ExpectClose(Summarize(bytes, dtype), ExactOf(dtype, bytes));
      }
    }
  }
}

TEST(SummarizeTest, SumsOfSmallIntegersAreExact) {
  for (const DType dtype : {DType::kInt8, DType::kUint8, DType::kBool}) {
    const auto bytes = MakeElements(dtype, Pattern::kAnyBits, 100000, 1);
    const Exact exact = ExactOf(dtype, bytes);
    const Summary actual = Summarize(bytes, dtype);
    EXPECT_EQ(actual.sum, exact.sum) << DTypeName(dtype);
    EXPECT_EQ(actual.l1, exact.l1) << DTypeName(dtype);
    EXPECT_EQ(actual.sum_squares, exact.squares) << DTypeName(dtype);
  }
}

TEST(SummarizeTest, OfNothingIsTheEmptySummary) {
  for (int i = 1; i < kDTypeCount; ++i) {
    EXPECT_EQ(Summarize({}, static_cast<DType>(i)), Summary());
  }
}

TEST(SummarizeTest, ComplexElementsCountAsTheirComponents) {
  for (const auto& [complex, component] :
       {std::pair{DType::kComplex64, DType::kFloat32},
        std::pair{DType::kComplex128, DType::kFloat64}}) {
    const auto bytes = MakeElements(component, Pattern::kMixed, 2002, 5);
    EXPECT_EQ(Summarize(bytes, complex), Summarize(bytes, component));
    EXPECT_EQ(Summarize(bytes, complex).count, 2002U);
  }
}

TEST(SummarizeTest, ABoolIsOneIfAnyBitIsSet) {
  const std::vector<std::byte> bytes(300, std::byte{0x80});
  const Summary summary = Summarize(bytes, DType::kBool);
  EXPECT_EQ(summary.sum, 300);
  EXPECT_EQ(summary.max, 1);
}

TEST(SummarizeTest, InfinitiesAreExtremesButNotSummed) {
  for (const size_t repeat : {1, 100}) {
    std::vector<double> values;
    for (size_t i = 0; i < repeat; ++i) {
      values.insert(values.end(), {1, kInfinity, -3, -kInfinity, kNaN, 0});
    }
    const Summary summary = Of(DType::kFloat32, values);
    EXPECT_EQ(summary.min, -kInfinity);
    EXPECT_EQ(summary.max, kInfinity);
    EXPECT_EQ(summary.finite_count(), 3 * repeat);
    EXPECT_EQ(summary.sum, -2.0 * repeat);
    EXPECT_EQ(summary.l1, 4.0 * repeat);
    EXPECT_EQ(summary.sum_squares, 10.0 * repeat);
    EXPECT_EQ(summary.zero_count, repeat);
  }
}

TEST(SummarizeTest, AllNanHasNoExtremes) {
  for (const size_t count : {3, 128, 300}) {
    const Summary summary = Of(DType::kBfloat16, Repeat(kNaN, count));
    EXPECT_FALSE(summary.has_extremes());
    EXPECT_EQ(summary.nan_count, count);
    EXPECT_EQ(summary.min, kInfinity);
    EXPECT_EQ(summary.max, -kInfinity);
    EXPECT_EQ(summary.mean(), 0);
  }
}

TEST(SummarizeTest, NegativeZeroIsCountedAndReportedAsZero) {
  for (const size_t count : {5, 128, 200}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      const Summary summary = Of(dtype, Repeat(-0.0, count));
      EXPECT_EQ(summary.zero_count, count);
      EXPECT_EQ(std::bit_cast<uint64_t>(summary.min), 0U);
      EXPECT_EQ(std::bit_cast<uint64_t>(summary.max), 0U);
      EXPECT_EQ(std::bit_cast<uint64_t>(summary.sum), 0U);
    }
  }
}

TEST(SummarizeTest, SquaresBeyondDoubleGetAnExponent) {
  const Summary large = Of(DType::kFloat64, Repeat(1e307, 300));
  EXPECT_EQ(large.sum_squares_exponent, 1200);
  EXPECT_NEAR(large.l2_norm() / (1e307 * std::sqrt(300)), 1, 1e-14);
  EXPECT_EQ(large.sum, kInfinity);

  const Summary small = Of(DType::kFloat64, Repeat(kDenormMin, 300));
  EXPECT_EQ(small.sum_squares_exponent, -1200);
  EXPECT_EQ(small.sum_squares, 300 * 0x1p-948);
  EXPECT_EQ(small.sum, 300 * kDenormMin);

  const Summary plain = Of(DType::kFloat64, Repeat(1e100, 300));
  EXPECT_EQ(plain.sum_squares_exponent, 0);
}

TEST(SummarizeTest, LargeValuesThatCancelDoNotOverflowOnTheWay) {
  std::vector<double> values = Repeat(kMax, 200);
  values.resize(400, -kMax);
  EXPECT_LE(std::fabs(Of(DType::kFloat64, values).sum), 1e-12 * kMax);
}

TEST(SummarizeTest, LargeAndTinyBlocksShareOneSum) {
  std::vector<double> values = Repeat(1e-300, 256);
  values.resize(512, 3.0);
  EXPECT_NEAR(Of(DType::kFloat64, values).sum_squares, 256 * 9.0, 1e-9);
  values.resize(768, 1e300);
  const Summary summary = Of(DType::kFloat64, values);
  EXPECT_NEAR(summary.l2_norm() / 1.6e301, 1, 1e-14);
  EXPECT_EQ(summary.min, 1e-300);
}

TEST(SummarizeTest, MergingPartsGivesTheCountsOfTheWhole) {
  const auto bytes = MakeElements(DType::kFloat32, Pattern::kMixed, 5000, 2);
  const std::span<const std::byte> all = bytes;
  const Summary merged = Merge(Summarize(all.first(8000), DType::kFloat32),
                               Summarize(all.subspan(8000), DType::kFloat32));
  ExpectClose(merged, ExactOf(DType::kFloat32, bytes));
}

}  // namespace
}  // namespace msitd::compute
