// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/logit_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "daemon/compute/element_metrics.h"

namespace msitd::compute {
namespace {

using M = ElementMetric;
using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

ElementMetrics Measure(const Values& target, const Values& golden,
                       uint64_t row_elements, uint64_t row_count = 1,
                       size_t step = 1000) {
  ElementRequest request;
  request.sets = kTopKSet;
  request.row_elements = row_elements;
  request.row_count = row_count;
  ElementAccumulator accumulator(DType::kFloat64, DType::kFloat64, request);
  for (size_t at = 0; at < golden.size(); at += step) {
    const size_t now = std::min(step, golden.size() - at);
    accumulator.Update(std::as_bytes(std::span(target).subspan(at, now)),
                       std::as_bytes(std::span(golden).subspan(at, now)));
  }
  return accumulator.Finish();
}

// Computes KL(softmax(g) || softmax(t)) from its definition.
long double Divergence(std::span<const double> t, std::span<const double> g) {
  const auto log_sum = [](std::span<const double> x) {
    const long double most = *std::max_element(x.begin(), x.end());
    long double sum = 0;
    for (const double e : x) sum += std::exp(e - most);
    return most + std::log(sum);
  };
  const long double log_t = log_sum(t);
  const long double log_g = log_sum(g);
  long double out = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const long double log_p = g[i] - log_g;
    out += std::exp(log_p) * (log_p - (t[i] - log_t));
  }
  return out;
}

TEST(LogitPassTest, AgreesWithBruteForceHoweverThePairIsCut) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 3);
  constexpr size_t kRows = 17;
  for (const size_t length : {1, 2, 50, 1500}) {
    Values golden;
    Values target;
    for (size_t i = 0; i < kRows * length; ++i) {
      golden.push_back(normal(random));
      target.push_back(golden.back() + 0.2 * normal(random));
    }
    long double divergence = 0;
    double flip = 0;
    uint64_t worst = 0;
    for (size_t row = 0; row < kRows; ++row) {
      const auto t = std::span(target).subspan(row * length, length);
      const auto g = std::span(golden).subspan(row * length, length);
      const long double of_row = Divergence(t, g);
      if (of_row > divergence) {
        divergence = of_row;
        worst = row;
      }
      const auto range = std::minmax_element(g.begin(), g.end());
      const auto chosen = std::max_element(t.begin(), t.end()) - t.begin();
      const double margin = *range.second - g[static_cast<size_t>(chosen)];
      if (margin > 0) {
        flip = std::max(flip, margin / (*range.second - *range.first));
      }
    }
    for (const size_t step : {1, 7, 1000}) {
      const ElementMetrics m = Measure(target, golden, length, kRows, step);
      EXPECT_NEAR(*m[M::kRowKlMax], static_cast<double>(divergence), 1e-12);
      EXPECT_EQ(m[M::kTop1MarginFlip], flip);
      EXPECT_TRUE(length == 1 || m.row_kl_max_row == worst);
    }
  }
}

// A softmax over the whole tensor is dominated by the row with the largest
// logits.
TEST(LogitPassTest, SeesWrongRowsBesideALargerOne) {
  Values golden = {60, 1, 2, /**/ 1, 2, 3, /**/ 3, 2, 1};
  Values target = {60, 1, 2, /**/ 3, 2, 1, /**/ 3, 2, 1};
  const ElementMetrics m = Measure(target, golden, 3, 3);
  EXPECT_GT(*m[M::kRowKlMax], 1);
  EXPECT_EQ(m.row_kl_max_row, 1U);
  EXPECT_EQ(m[M::kTop1MarginFlip], 1);
  EXPECT_EQ(m.top1_flip_row, 1U);
}

TEST(LogitPassTest, AFlipWithinTheNoiseHasASmallMargin) {
  const ElementMetrics m = Measure({5, 5.01, -5}, {5.01, 5, -4.99}, 3);
  EXPECT_NEAR(*m[M::kTop1MarginFlip], 0.001, 1e-12);
  EXPECT_EQ(Measure({1, 2}, {3, 3}, 2)[M::kTop1MarginFlip], 0);
}

TEST(LogitPassTest, LeavesOutMasks) {
  for (const double mask : {-kInfinity, -1e9, -65504.0}) {
    const ElementMetrics m = Measure({1, 2, mask}, {2, 1, mask}, 3);
    EXPECT_EQ(m[M::kTop1MarginFlip], 1) << mask;
    EXPECT_NEAR(*m[M::kRowKlMax],
                static_cast<double>(Divergence(Values{1, 2}, Values{2, 1})),
                1e-12)
        << mask;
  }
  const Values masked(3, -kInfinity);
  EXPECT_EQ(Measure(masked, masked, 3)[M::kRowKlMax], 0);
}

TEST(LogitPassTest, AMaskOnOneSideIsNoNoise) {
  const ElementMetrics lost = Measure({-kInfinity, 1, 2}, {3, 1, 2}, 3);
  EXPECT_EQ(lost[M::kRowKlMax], kInfinity);
  EXPECT_EQ(lost[M::kTop1MarginFlip], 0.5);
  const ElementMetrics more = Measure({9, 1, 2}, {-kInfinity, 1, 2}, 3);
  EXPECT_GT(*more[M::kRowKlMax], 1);
  EXPECT_TRUE(std::isfinite(*more[M::kRowKlMax]));
  EXPECT_EQ(more[M::kTop1MarginFlip], kInfinity);
}

TEST(LogitPassTest, NaNLeavesNoDivergence) {
  const ElementMetrics m = Measure({1, kNaN, 2}, {1, 3, 2}, 3);
  EXPECT_EQ(m[M::kRowKlMax], std::nullopt);
  EXPECT_EQ(m[M::kTop1MarginFlip], 0);
  EXPECT_EQ(Measure({kNaN, 3}, {1, 3}, 2)[M::kTop1MarginFlip], 1);
  EXPECT_EQ(Measure({1, 3}, {kNaN, 3}, 2)[M::kTop1MarginFlip], kInfinity);
  EXPECT_EQ(Measure({kInfinity, 3}, {kInfinity, 3}, 2)[M::kRowKlMax],
            std::nullopt);
}

TEST(LogitPassTest, SamplesHaveNoRows) {
  const ElementMetrics m = Measure({1, 2}, {2, 1}, 2, 0);
  EXPECT_EQ(m[M::kRowKlMax], std::nullopt);
  EXPECT_EQ(m[M::kTop1MarginFlip], std::nullopt);
  EXPECT_EQ(m[M::kArgmaxAgreement], 0);
}

}  // namespace
}  // namespace msitd::compute
