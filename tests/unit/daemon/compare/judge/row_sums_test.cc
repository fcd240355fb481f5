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

  template <typename Callback>
  void ForEach(const Callback& callback) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::vector<double> golden = {3, 4};
      const double sign = i % 2 == 0 ? 1 : -1;
      const std::vector<double> target = {
          3 + slopes[0] * sums[i] + sign * extra,
          4 + slopes[1] * sums[i] - sign * extra};
      callback(sums[i], golden, target);
    }
  }
};

std::vector<double> SlopesOf(const Rows& rows) {
  RowSumFit fit(rows.sums, 2);
  if (!fit.IsDetermined()) return {};
  rows.ForEach([&](double, const auto& golden, const auto& target) {
    fit.Add(golden, target);
  });
  return fit.Slopes();
}

RowSumRemainder RemainderOf(const Rows& rows,
                            const std::vector<double>& slopes) {
  RowSumRemainder out(slopes);
  rows.ForEach([&](double sum, const auto& golden, const auto& target) {
    out.Add(sum, golden, target);
  });
  return out;
}

const std::vector<double> kSums = {1e-3,  -2e-3,   3e-3,  1.5e-3,  -1e-3,
                                   2e-3,  0,       -3e-3, 2.5e-3,  -2.5e-3,
                                   -3e-3, -1.5e-3, 3e-3,  -0.5e-3, 0.5e-3};

TEST(RowSums, ErrorsThatFollowFromSumsLeaveNothing) {
  const Rows rows{kSums};
  const std::vector<double> slopes = SlopesOf(rows);
  ASSERT_EQ(slopes.size(), 2u);
  EXPECT_NEAR(slopes[0], 30, 1e-9);
  EXPECT_NEAR(slopes[1], -20, 1e-9);
  const RowSumRemainder rest = RemainderOf(rows, slopes);
  EXPECT_LT(rest.Nl2(), 1e-12);
  EXPECT_LT(rest.ScaledMaxAbs(), 1e-12);
  EXPECT_LT(rest.RowNl2P50(), 1e-12);
  EXPECT_LT(rest.ChannelNl2P50(), 1e-12);
}

TEST(RowSums, OtherErrorsRemain) {
  const Rows rows{kSums, {30, -20}, 0.5};
  const std::vector<double> slopes = SlopesOf(rows);
  const RowSumRemainder rest = RemainderOf(rows, slopes);
  // All of it except for the share of one row in eight.
  const double whole = 0.5 * std::sqrt(2.0) / 5;
  EXPECT_GT(rest.Nl2(), 0.9 * whole);
  EXPECT_LE(rest.Nl2(), whole);
  EXPECT_GT(rest.ScaledMaxAbs(), 0.4 / 4);
  EXPECT_GT(rest.RowNl2P50(), 0.8 * whole);
  EXPECT_GT(rest.ChannelNl2P50(), 0.1);
}

TEST(RowSums, FewRowsFitAnything) {
  EXPECT_TRUE(SlopesOf({{1e-3, -2e-3, 3e-3, 4e-3, -1e-3, 2e-3, 0}}).empty());
}

TEST(RowSums, EqualRowsFitAnything) {
  EXPECT_TRUE(SlopesOf({std::vector<double>(16, 1e-3)}).empty());
  std::vector<double> few;
  for (int i = 0; i < 32; ++i) few.push_back(1e-3 * (i % 7));
  EXPECT_TRUE(SlopesOf({few}).empty());
}

TEST(RowSums, AFewRowsWithLargeSumsFitThemselves) {
  std::vector<double> sums = kSums;
  sums.front() = 0.1;
  EXPECT_TRUE(SlopesOf({sums}).empty());
}

// The mean of the sums is much larger than their deviations.
TEST(RowSums, AnErrorOfAllRowsRemains) {
  Rows rows{kSums, {0, 0}};
  for (double& sum : rows.sums) sum += 1;
  const std::vector<double> slopes = SlopesOf(rows);
  ASSERT_EQ(slopes.size(), 2u);
  RowSumFit fit(rows.sums, 2);
  ASSERT_TRUE(fit.IsDetermined());
  const std::vector<double> golden = {3, 4};
  const std::vector<double> target = {3.5, 4.5};
  for (size_t i = 0; i < rows.sums.size(); ++i) fit.Add(golden, target);
  for (const double slope : fit.Slopes()) EXPECT_NEAR(slope, 0, 1e-9);
}

RowSums SumsOf(const std::vector<std::vector<double>>& rows) {
  RowSums out;
  for (const std::vector<double>& row : rows) out.Add(row);
  return out;
}

TEST(RowSums, RoundedSumsAreThoseOfRowsThatCancel) {
  const RowSums golden = SumsOf({{1, -1, 2, -2}, {2, -2, 1, -1}});
  const RowSums target = SumsOf({{1, -1, 2.01, -2}, {2, -2.01, 1, -1}});
  EXPECT_TRUE(MayBeRoundedSums(golden, target, 0.01, 0.3));
  // More than the elements are rounded.
  EXPECT_FALSE(MayBeRoundedSums(golden, target, 0.001, 0.3));
  // One of the rows does not cancel.
  EXPECT_FALSE(MayBeRoundedSums(golden, SumsOf({{1, -1, 2.01, -2}, {2, 2, 1}}),
                                0.01, 0.3));
}

TEST(RowSums, ErrorsOfAScaleAreNoRoundedSums) {
  const RowSums golden = SumsOf({{1, -1, 2, -1.8}, {2, -2, 1, -1.2}});
  const RowSums target =
      SumsOf({{1.01, -1.01, 2.02, -1.818}, {2.02, -2.02, 1.01, -1.212}});
  EXPECT_TRUE(golden.do_cancel);
  EXPECT_FALSE(MayBeRoundedSums(golden, target, 0.04, 0.3));
  EXPECT_TRUE(MayBeRoundedSums(golden, target, 0.04, 0.01));
}

TEST(RowSums, NanDoesNotCancel) {
  EXPECT_FALSE(SumsOf({{std::numeric_limits<double>::quiet_NaN()}}).do_cancel);
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
