// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/number/lane_sum.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace msitd::compute {
namespace {

TEST(LaneSumTest, AddsBlocksOfOneScale) {
  LaneSum sum;
  sum.Add({1, 2, 3, 4, 5, 6, 7, 8}, 0);
  sum.Add({1, 1, 1, 1, 1, 1, 1, 1}, 0);
  EXPECT_EQ(sum.Value(), 44);
}

TEST(LaneSumTest, KeepsTheLargerScale) {
  LaneSum sum;
  sum.Add({1}, 0);
  sum.Add({2}, 100);
  EXPECT_EQ(sum.exponent, 100);
  EXPECT_EQ(sum.Value(), 0x1p101 + 1);
  sum.Add({0x1p100}, 0);
  EXPECT_EQ(sum.Mantissa(), 3 + 0x1p-100);
}

TEST(LaneSumTest, TakesTheScaleOfTheFirstBlockThatIsNotZero) {
  LaneSum sum;
  sum.Add({0, -0.0}, 1200);
  EXPECT_EQ(sum.exponent, 0);
  sum.Add({5}, -1200);
  EXPECT_EQ(sum.exponent, -1200);
  sum.Add({0}, 1200);
  EXPECT_EQ(sum.exponent, -1200);
  EXPECT_EQ(sum.Mantissa(), 5);
}

TEST(LaneSumTest, IsInfiniteBeyondDouble) {
  LaneSum sum;
  sum.Add({-1}, 5000);
  EXPECT_EQ(sum.Value(), -std::numeric_limits<double>::infinity());
}

TEST(LogTest, IsWithinTwoUlpOfTheTruth) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-1073, 1023);
  for (int i = 0; i < 200000; ++i) {
    // Half of the values are near 1, where the logarithm is small.
    const double x = i % 2 == 0 ? std::exp2(exponent(random))
                                : 1 + exponent(random) * 0x1p-12;
    const long double truth = std::log(static_cast<long double>(x));
    const double near = static_cast<double>(truth);
    const double ulp =
        std::nextafter(std::fabs(near), INFINITY) - std::fabs(near);
    ASSERT_LE(std::fabs(Log(x) - truth), 2 * ulp) << x;
  }
  EXPECT_EQ(Log(1), 0);
}

}  // namespace
}  // namespace msitd::compute
