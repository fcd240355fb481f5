// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace msitd::compare {
namespace {

// Rows of two channels. `sums` are the differences of the input sums; the error
// of channel k in row i is slopes[k] * sums[i] + extra.
struct Rows {
  std::vector<double> sums;
  std::vector<double> slopes = {30, -20};
  double extra = 0;

  template <typename Out>
  void AddTo(Out& out) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::vector<double> golden = {3, 4};
      const double sign = i % 2 == 0 ? 1 : -1;
      const std::vector<double> target = {
          3 + slopes[0] * sums[i] + sign * extra,
          4 + slopes[1] * sums[i] - sign * extra};
      out.Add(sums[i], golden, target);
    }
  }
};

std::vector<double> SlopesOf(const Rows& rows) {
  RowSumFit fit(2);
  rows.AddTo(fit);
  return fit.Slopes();
}

const std::vector<double> kSums = {1e-3,  -2e-3, 3e-3, 1e-3,
                                   -1e-3, 2e-3,  0,    -3e-3};

TEST(RowSums, ErrorsThatFollowFromSumsLeaveNothing) {
  const Rows rows{kSums};
  const std::vector<double> slopes = SlopesOf(rows);
  ASSERT_EQ(slopes.size(), 2u);
  EXPECT_NEAR(slopes[0], 30, 1e-9);
  EXPECT_NEAR(slopes[1], -20, 1e-9);
  RowSumRemainder rest(slopes);
  rows.AddTo(rest);
  EXPECT_LT(rest.Nl2(), 1e-12);
  EXPECT_LT(rest.ScaledMaxAbs(), 1e-12);
  EXPECT_LT(rest.RowNl2P50(), 1e-12);
  EXPECT_LT(rest.ChannelNl2P50(), 1e-12);
}

TEST(RowSums, OtherErrorsRemain) {
  const Rows rows{kSums, {30, -20}, 0.5};
  const std::vector<double> slopes = SlopesOf(rows);
  RowSumRemainder rest(slopes);
  rows.AddTo(rest);
  // All of it except for the share of one row in eight.
  const double whole = 0.5 * std::sqrt(2.0) / 5;
  EXPECT_GT(rest.Nl2(), 0.9 * whole);
  EXPECT_LE(rest.Nl2(), whole);
  EXPECT_GT(rest.ScaledMaxAbs(), 0.4 / 4);
  EXPECT_GT(rest.RowNl2P50(), 0.8 * whole);
  EXPECT_GT(rest.ChannelNl2P50(), 0.1);
}

TEST(RowSums, FewRowsFitAnything) {
  EXPECT_TRUE(SlopesOf({{1e-3, -2e-3, 3e-3, 1e-3, -1e-3, 2e-3, 1e-3}}).empty());
  // The sums of only three rows differ.
  EXPECT_TRUE(SlopesOf({{1e-3, -2e-3, 3e-3, 0, 0, 0, 0, 0, 0}}).empty());
}

TEST(RowSums, NanIsNoSmallRemainder) {
  const std::vector<double> slopes = {0};
  RowSumRemainder rest(slopes);
  const std::vector<double> golden = {1};
  const std::vector<double> target = {std::numeric_limits<double>::quiet_NaN()};
  rest.Add(0, golden, target);
  EXPECT_TRUE(std::isnan(rest.ScaledMaxAbs()));
}

TEST(RowSums, NumbersAreRoundedToDigits) {
  EXPECT_EQ(RoundedTo(1.0 + 0x1p-9, 8), 1.0);
  EXPECT_EQ(RoundedTo(1.0 + 3 * 0x1p-9, 8), 1.0 + 0x1p-7);
  EXPECT_EQ(RoundedTo(-300.7, 8), -300.0);
  EXPECT_EQ(RoundedTo(0, 8), 0);
}

}  // namespace
}  // namespace msitd::compare
