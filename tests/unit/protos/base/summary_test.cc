// SPDX-License-Identifier: Apache-2.0
#include "protos/base/summary.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace msitd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Summary Of(std::initializer_list<double> values) {
  Summary out;
  for (const double x : values) {
    ++out.count;
    if (std::isnan(x)) {
      ++out.nan_count;
      continue;
    }
    out.min = std::min(out.min, x);
    out.max = std::max(out.max, x);
    if (x == kInfinity) {
      ++out.positive_infinity_count;
    } else if (x == -kInfinity) {
      ++out.negative_infinity_count;
    } else {
      if (x == 0) ++out.zero_count;
      out.sum += x;
      out.l1 += std::fabs(x);
      out.sum_squares += x * x;
    }
  }
  return out;
}

Summary Squares(double sum_squares, int64_t exponent) {
  Summary out;
  out.count = 1;
  out.min = out.max = 1;
  out.sum_squares = sum_squares;
  out.sum_squares_exponent = exponent;
  return out;
}

TEST(SummaryTest, LayoutIsFrozen) {
  EXPECT_EQ(offsetof(Summary, count), 0u);
  EXPECT_EQ(offsetof(Summary, nan_count), 8u);
  EXPECT_EQ(offsetof(Summary, positive_infinity_count), 16u);
  EXPECT_EQ(offsetof(Summary, negative_infinity_count), 24u);
  EXPECT_EQ(offsetof(Summary, zero_count), 32u);
  EXPECT_EQ(offsetof(Summary, min), 40u);
  EXPECT_EQ(offsetof(Summary, max), 48u);
  EXPECT_EQ(offsetof(Summary, sum), 56u);
  EXPECT_EQ(offsetof(Summary, l1), 64u);
  EXPECT_EQ(offsetof(Summary, sum_squares), 72u);
  EXPECT_EQ(offsetof(Summary, sum_squares_exponent), 80u);
}

TEST(SummaryTest, OfNothingHasNoExtremesAndNoMean) {
  const Summary none;
  EXPECT_FALSE(none.has_extremes());
  EXPECT_EQ(none.abs_max(), 0);
  EXPECT_EQ(none.mean(), 0);
  EXPECT_EQ(none.l2_norm(), 0);
}

TEST(SummaryTest, OfNanOnlyHasNoExtremes) {
  const Summary nan = Of({NAN, NAN});
  EXPECT_FALSE(nan.has_extremes());
  EXPECT_EQ(nan.abs_max(), 0);
  EXPECT_EQ(nan.finite_count(), 0u);
}

TEST(SummaryTest, InfinitiesCountAsExtremesButNotInSums) {
  const Summary s = Of({-kInfinity, 1, 3});
  EXPECT_TRUE(s.has_extremes());
  EXPECT_EQ(s.abs_max(), kInfinity);
  EXPECT_EQ(s.finite_count(), 2u);
  EXPECT_EQ(s.mean(), 2);
  EXPECT_DOUBLE_EQ(s.l2_norm(), std::sqrt(10.0));
}

TEST(ContentHashTest, TextHasTheHighHalfFirst) {
  EXPECT_EQ(HashText({0x0123456789abcdef, 0xfe}),
            "00000000000000fe0123456789abcdef");
}

TEST(SummaryMergeTest, EqualsTheSummaryOfTheConcatenation) {
  const Summary a = Of({1, -2, 0, NAN});
  const Summary b = Of({8, kInfinity, -0.0});
  EXPECT_EQ(Merge(a, b), Of({1, -2, 0, NAN, 8, kInfinity, -0.0}));
}

TEST(SummaryMergeTest, WithNothingChangesNothing) {
  const Summary a = Of({1, -2, 0.5});
  EXPECT_EQ(Merge(a, Summary{}), a);
  EXPECT_EQ(Merge(Summary{}, a), a);
  const Summary large = Squares(0.75, 2000);
  EXPECT_EQ(Merge(large, Summary{}), large);
  EXPECT_EQ(Merge(Summary{}, large), large);
}

TEST(SummaryMergeTest, ExponentsAddUp) {
  const Summary sum = Merge(Squares(1, 1000), Squares(1, 1002));
  EXPECT_EQ(sum.sum_squares_exponent, 1002);
  EXPECT_EQ(sum.sum_squares, 1.25);
}

TEST(SummaryMergeTest, ExponentsMayBeFarApart) {
  const Summary sum = Merge(Squares(1, -3000), Squares(1, 3000));
  EXPECT_EQ(sum.sum_squares_exponent, 3000);
  EXPECT_EQ(sum.sum_squares, 1);
}

TEST(SummaryMergeTest, SumsOfSquaresDoNotOverflow) {
  const double huge = 0x1p1023;
  const Summary same = Merge(Squares(huge, 0), Squares(huge, 0));
  EXPECT_TRUE(std::isfinite(same.sum_squares));
  EXPECT_DOUBLE_EQ(same.l2_norm(), 0x1p512);
  const Summary mixed = Merge(Squares(huge, 0), Squares(huge, -1));
  EXPECT_TRUE(std::isfinite(mixed.sum_squares));
  EXPECT_DOUBLE_EQ(mixed.l2_norm(), std::sqrt(1.5) * 0x1p511 * std::sqrt(2.0));
}

TEST(SummaryTest, NormTakesOddAndNegativeExponents) {
  EXPECT_DOUBLE_EQ(Squares(2, 1).l2_norm(), 2);
  EXPECT_DOUBLE_EQ(Squares(1, 2000).l2_norm(), 0x1p1000);
  EXPECT_DOUBLE_EQ(Squares(2, -1).l2_norm(), 1);
  EXPECT_DOUBLE_EQ(Squares(1, -2000).l2_norm(), 0x1p-1000);
  EXPECT_DOUBLE_EQ(Squares(0.5, -1999).l2_norm(), 0x1p-1000);
}

}  // namespace
}  // namespace msitd
