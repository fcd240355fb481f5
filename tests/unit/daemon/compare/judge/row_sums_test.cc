// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
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
      callback(i, golden, target);
    }
  }
};

struct Fitted {
  RowSlopes slopes;
  RowSumRemainder rest{2};
};

// Returns nothing if the rows do not determine the slopes.
std::optional<Fitted> FitOf(const Rows& rows) {
  RowSumFit fit(rows.sums, 2);
  if (!fit.IsDetermined()) return std::nullopt;
  rows.ForEach([&](size_t, const auto& golden, const auto& target) {
    fit.Add(golden, target);
  });
  Fitted out;
  const std::vector<std::vector<double>> predicting = fit.SlopesOfOthers();
  rows.ForEach([&](size_t row, const auto& golden, const auto& target) {
    out.rest.Add(predicting[fit.FoldOf(row)], rows.sums[row], golden, target);
  });
  out.slopes = fit.Slopes(out.rest.Squares());
  return out;
}

const std::vector<double> kSums = {1e-3,  -2e-3,   3e-3,  1.5e-3,  -1e-3,
                                   2e-3,  0,       -3e-3, 2.5e-3,  -2.5e-3,
                                   -3e-3, -1.5e-3, 3e-3,  -0.5e-3, 0.5e-3};
const std::vector<double> kFewSums = {1e-3, -2e-3, 3e-3, 4e-3, -1e-3, 2e-3};

TEST(RowSums, ErrorsThatFollowFromSumsLeaveNothing) {
  for (const std::vector<double>& sums : {kSums, kFewSums}) {
    const std::optional<Fitted> fitted = FitOf({sums});
    ASSERT_TRUE(fitted.has_value());
    EXPECT_NEAR(fitted->slopes.of_channels[0], 30, 1e-9);
    EXPECT_NEAR(fitted->slopes.of_channels[1], -20, 1e-9);
    EXPECT_LT(fitted->rest.Nl2(), 1e-12);
    EXPECT_LT(fitted->rest.ScaledMaxAbs(), 1e-12);
    EXPECT_LT(fitted->rest.RowNl2P50(), 1e-12);
    EXPECT_LT(fitted->rest.ChannelNl2P50(), 1e-12);
  }
}

TEST(RowSums, OtherErrorsRemainEvenIfRowsAreFew) {
  for (const std::vector<double>& sums : {kSums, kFewSums}) {
    const std::optional<Fitted> fitted = FitOf({sums, {30, -20}, 0.5});
    ASSERT_TRUE(fitted.has_value());
    const double whole = 0.5 * std::sqrt(2.0) / 5;
    EXPECT_GT(fitted->rest.Nl2(), 0.9 * whole);
    EXPECT_GT(fitted->rest.ScaledMaxAbs(), 0.4 / 4);
    EXPECT_GT(fitted->rest.RowNl2P50(), 0.75 * whole);
    EXPECT_GT(fitted->rest.ChannelNl2P50(), 0.1);
  }
}

TEST(RowSums, FewerRowsFitAnything) {
  EXPECT_FALSE(FitOf({{1e-3, -2e-3, 3e-3, 4e-3, 0}}).has_value());
}

TEST(RowSums, EqualRowsFitAnything) {
  EXPECT_FALSE(FitOf({std::vector<double>(16, 1e-3)}).has_value());
  std::vector<double> few;
  for (int i = 0; i < 32; ++i) few.push_back(1e-3 * (i % 5));
  EXPECT_FALSE(FitOf({few}).has_value());
}

TEST(RowSums, ARowWithALargeSumFitsItself) {
  std::vector<double> sums = kSums;
  sums.front() = 0.1;
  EXPECT_FALSE(FitOf({sums}).has_value());
}

// Only the rows with the largest sums have an error. As they are nearly equal,
// they would predict each other.
TEST(RowSums, NearlyEqualRowsDoNotPredictEachOther) {
  for (const double difference : {0.0, 1e-4}) {
    std::vector<double> sums = kSums;
    for (int i = 0; i < 4; ++i) sums.push_back(0.005 + i * difference);
    const auto is_wrong = [&](double sum) { return sum >= 0.005; };
    RowSumFit fit(sums, 1);
    ASSERT_TRUE(fit.IsDetermined());
    const std::vector<double> golden = {1};
    const std::vector<double> wrong = {1.5};
    for (const double sum : sums) {
      fit.Add(golden, is_wrong(sum) ? wrong : golden);
    }
    const std::vector<std::vector<double>> predicting = fit.SlopesOfOthers();
    RowSumRemainder rest(1);
    for (size_t row = 0; row < sums.size(); ++row) {
      rest.Add(predicting[fit.FoldOf(row)], sums[row], golden,
               is_wrong(sums[row]) ? wrong : golden);
    }
    const double whole =
        0.5 * std::sqrt(4.0 / static_cast<double>(sums.size()));
    EXPECT_GT(rest.Nl2(), 0.9 * whole);
  }
}

TEST(RowSums, NearlyEqualRowsWithLargeSumsFitThemselves) {
  std::vector<double> sums = kSums;
  sums.insert(sums.end(), {0.1, 0.101, 0.102});
  EXPECT_FALSE(FitOf({sums}).has_value());
}

// An error without any relation to the sums is hardly ever accepted, however
// few rows there are, and not if its rows have different directions.
TEST(RowSums, ErrorsAgreeWithSumsByChanceOnlyIfTheyHaveOneDirection) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  constexpr int kTrials = 2000;
  constexpr size_t kChannels = 16;
  const std::vector<double> golden(kChannels, 1.0);
  for (const bool has_one_direction : {false, true}) {
    int accepted = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> sums(kFittedRowsMin);
      for (double& sum : sums) sum = normal(random);
      RowSumFit fit(sums, kChannels);
      if (!fit.IsDetermined()) continue;
      std::vector<std::vector<double>> targets(sums.size(), golden);
      double whole = 0;
      for (std::vector<double>& target : targets) {
        const double size = normal(random);
        for (size_t k = 0; k < kChannels; ++k) {
          const double error = has_one_direction ? size * static_cast<double>(k)
                                                 : normal(random);
          target[k] += error;
          whole += error * error;
        }
        fit.Add(golden, target);
      }
      const std::vector<std::vector<double>> predicting = fit.SlopesOfOthers();
      RowSumRemainder rest(kChannels);
      for (size_t row = 0; row < sums.size(); ++row) {
        rest.Add(predicting[fit.FoldOf(row)], sums[row], golden, targets[row]);
      }
      const double norm = std::sqrt(static_cast<double>(kChannels) *
                                    static_cast<double>(sums.size()));
      accepted +=
          rest.Nl2() <= kRemainingShareMax * std::sqrt(whole) / norm ? 1 : 0;
    }
    EXPECT_LE(accepted, has_one_direction ? kTrials / 25 : 0);
  }
}

// A row of a later token, whose error is predicted from uncertain slopes.
TEST(RowSums, ErrorsOfSlopesAreLeftOut) {
  const std::vector<double> golden = {3, 4};
  const RowSlopes slopes{{30, -20}, /*variance=*/1};
  const auto share_of = [&](double extra) {
    RowSumRemainder rest(2);
    const std::vector<double> target = {3 + 30 * 0.01 + extra, 4 - 20 * 0.01};
    rest.Add(slopes.of_channels, 0.01, golden, target);
    return rest.ShareBeyond(slopes);
  };
  // Two standard deviations are 0.02.
  EXPECT_EQ(share_of(0.01), 0);
  EXPECT_EQ(share_of(0.0199), 0);
  EXPECT_NEAR(share_of(0.025), 0.6, 1e-9);
  EXPECT_GT(share_of(0.2), 0.99);
}

// The slopes are as uncertain as the remaining errors of the rows make them.
TEST(RowSums, TheVarianceIsThatOfTheSlopes) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const std::vector<double> golden = {3};
  double errors = 0;
  double variances = 0;
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<double> sums(12);
    for (double& sum : sums) sum = normal(random);
    RowSumFit fit(sums, 1);
    if (!fit.IsDetermined()) continue;
    std::vector<std::vector<double>> targets;
    for (const double sum : sums) {
      targets.push_back({3 + 30 * sum + normal(random)});
      fit.Add(golden, targets.back());
    }
    const std::vector<std::vector<double>> predicting = fit.SlopesOfOthers();
    RowSumRemainder rest(1);
    for (size_t row = 0; row < sums.size(); ++row) {
      rest.Add(predicting[fit.FoldOf(row)], sums[row], golden, targets[row]);
    }
    const RowSlopes slopes = fit.Slopes(rest.Squares());
    errors += (slopes.of_channels[0] - 30) * (slopes.of_channels[0] - 30);
    variances += slopes.variance;
  }
  EXPECT_GT(variances, errors);
  EXPECT_LT(variances, 2 * errors);
}

// The mean of the sums is much larger than their deviations.
TEST(RowSums, AnErrorOfAllRowsRemains) {
  std::vector<double> sums = kSums;
  for (double& sum : sums) sum += 1;
  RowSumFit fit(sums, 2);
  ASSERT_TRUE(fit.IsDetermined());
  const std::vector<double> golden = {3, 4};
  const std::vector<double> target = {3.5, 4.5};
  for (size_t i = 0; i < sums.size(); ++i) fit.Add(golden, target);
  for (const double slope : fit.Slopes(0).of_channels)
    EXPECT_NEAR(slope, 0, 1e-9);
  for (const std::vector<double>& slopes : fit.SlopesOfOthers()) {
    for (const double slope : slopes) EXPECT_NEAR(slope, 0, 1e-9);
  }
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

TEST(RowSums, SumsThatAreNotFiniteDetermineNothing) {
  for (const double wrong : {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    std::vector<double> sums = kSums;
    sums[3] = wrong;
    EXPECT_FALSE(FitOf({sums}).has_value());
  }
}

TEST(RowSums, NanDoesNotCancel) {
  EXPECT_FALSE(SumsOf({{std::numeric_limits<double>::quiet_NaN()}}).do_cancel);
}

TEST(RowSums, NanIsNoSmallRemainder) {
  const std::vector<double> slopes = {0};
  RowSumRemainder rest(1);
  const std::vector<double> golden = {1};
  const std::vector<double> target = {std::numeric_limits<double>::quiet_NaN()};
  rest.Add(slopes, 0, golden, target);
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
