// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_metrics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "protos/compute/digest.h"

namespace msitd::compare {
namespace {

template <size_t N>
std::span<const std::byte> BytesOf(const std::array<double, N>& values) {
  return std::as_bytes(std::span(values));
}

template <size_t N>
RowMetrics MetricsOf(const std::array<double, N>& target,
                     const std::array<double, N>& golden) {
  compute::PairAccumulator pair(DType::kFloat64, DType::kFloat64);
  pair.Update(BytesOf(target), BytesOf(golden));
  return ToRowMetrics(pair.Finish(),
                      compute::Summarize(BytesOf(golden), DType::kFloat64));
}

// The norm of the golden tensor exceeds the range of double. The quotient must
// not become 0, because the default predicate would then pass a wrong element.
TEST(RowMetricsTest, ALargeGoldenTensorDoesNotHideADifference) {
  const auto metrics =
      MetricsOf<4>({1e308, 1e308, 1e308, 5e307}, {1e308, 1e308, 1e308, 1e308});
  EXPECT_NEAR(*metrics[kScaledMaxAbs], 0.5, 1e-15);
}

TEST(RowMetricsTest, ADifferenceBeyondDoubleIsNotScaled) {
  const auto metrics = MetricsOf<2>({1.7e308, 1}, {-1.7e308, 1});
  EXPECT_FALSE(metrics[kScaledMaxAbs].has_value());
  EXPECT_FALSE(metrics[kPsnrDb].has_value());
}

TEST(RowMetricsTest, PsnrHoldsAtBothEndsOfDouble) {
  EXPECT_NEAR(*MetricsOf<2>({1e-323, 0}, {1.5e-323, 0})[kPsnrDb],
              20 * std::log10(3 / std::sqrt(0.5)), 4);
  EXPECT_NEAR(*MetricsOf<2>({1e308, -1.5e308}, {1.5e308, -1.5e308})[kPsnrDb],
              20 * std::log10(3 / (0.5 * std::sqrt(0.5))), 1e-9);
}

}  // namespace
}  // namespace msitd::compare
