// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/summary_bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/compute/digest.h"

namespace msitd::compare {
namespace {

using compute::Metric;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::span<const std::byte> BytesOf(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

Summary SummaryOf(const std::vector<float>& values) {
  return compute::DigestPart(BytesOf(values), DType::kFloat32).summary;
}

RowMetrics Measured(const std::vector<float>& target,
                    const std::vector<float>& golden) {
  compute::PairAccumulator pair(DType::kFloat32, DType::kFloat32);
  pair.Update(BytesOf(target), BytesOf(golden));
  return ToRowMetrics(pair.Finish(), SummaryOf(golden));
}

std::optional<double> LeastOf(Metric metric, const std::vector<float>& target,
                              const std::vector<float>& golden) {
  return LeastMetrics(SummaryOf(target), SummaryOf(golden),
                      {})[static_cast<int>(metric)];
}

TEST(SummaryBoundsTest, NeverSayMoreThanWhatIsMeasured) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> dice(0, 9);
  int bound_count = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> golden(1 + 7 * dice(random));
    for (float& value : golden) value = dice(random) < 2 ? 0 : normal(random);
    std::vector<float> target = golden;
    const float scale = dice(random) < 3 ? 1.3F : 1;
    const float noise = dice(random) < 5 ? 0.01F : 0;
    for (float& value : target) value = value * scale + noise * normal(random);
    for (std::vector<float>* side : {&golden, &target}) {
      const int what = dice(random);
      float& value = (*side)[side->size() / 2];
      if (what == 0) value = kNan;
      if (what == 1) value = kInf;
      if (what == 2) value = -kInf;
      if (what == 3) value = 1e6F;
    }
    const RowMetrics least =
        LeastMetrics(SummaryOf(target), SummaryOf(golden), {});
    const RowMetrics measured = Measured(target, golden);
    for (size_t i = 0; i < least.size(); ++i) {
      if (!least[i].has_value()) continue;
      ++bound_count;
      ASSERT_TRUE(measured[i].has_value()) << MetricNames()[i];
      EXPECT_LE(*least[i], *measured[i]) << MetricNames()[i] << " " << round;
    }
  }
  EXPECT_GT(bound_count, 1000);
}

TEST(SummaryBoundsTest, SayWhatCountsAndExtremesProve) {
  EXPECT_EQ(LeastOf(Metric::kNanMismatchCount, {1, kNan}, {1, 2}), 1);
  EXPECT_EQ(LeastOf(Metric::kInfMismatchCount, {1, -kInf}, {kInf, 2}), 1);
  EXPECT_EQ(LeastOf(Metric::kMismatchCount, {0, 0, 1}, {0, 2, 1}), 1);
  EXPECT_NEAR(*LeastOf(Metric::kMaxAbs, {1, 9}, {1, 2}), 7, 1e-9);
  // If the golden tensor is zero, any difference has an infinite relative
  // error.
  EXPECT_EQ(LeastOf(Metric::kNl2, {0, 1}, {0, 0}), kInf);
  EXPECT_EQ(LeastOf(Metric::kNl2, {2, 1}, {1, 2}), std::nullopt);
  EXPECT_EQ(LeastOf(Metric::kMaxAbs, {1}, {1, 2}), std::nullopt);
}

TEST(SummaryBoundsTest, AnElementBeyondAllTolerancesIsAnOutlier) {
  compute::ElementRequest request;
  request.sets = compute::kToleranceSet;
  request.atol = 1;
  request.rtol = 0.5;
  const auto outliers = [&request](const std::vector<float>& target) {
    return LeastMetrics(
        SummaryOf(target), SummaryOf({1, 4}),
        request)[kFirstElementMetric +
                 static_cast<int>(compute::ElementMetric::kOutlierCount)];
  };
  EXPECT_EQ(outliers({1, 6.9F}), std::nullopt);
  EXPECT_EQ(outliers({1, 7.1F}), 1);
  EXPECT_EQ(outliers({1, kNan}), 1);
}

}  // namespace
}  // namespace msitd::compare
