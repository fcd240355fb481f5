// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/open_pairs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<OpenPairs> MeasureOpen(const std::vector<double>& target,
                                     const std::vector<double>& golden,
                                     ElementRequest request,
                                     size_t step = 1 << 20) {
  OpenPairAccumulator accumulator(DType::kFloat64, DType::kFloat64, request);
  for (size_t at = 0; at < golden.size(); at += step) {
    const size_t now = std::min(step, golden.size() - at);
    accumulator.Update(std::as_bytes(std::span(target).subspan(at, now)),
                       std::as_bytes(std::span(golden).subspan(at, now)));
  }
  return accumulator.Finish();
}

ElementRequest RequestOf(double target, double golden) {
  ElementRequest request;
  request.closing = ClosingValues{target, golden};
  return request;
}

TEST(OpenPairsTest, MetricsAreThoseOfTheOpenPlaces) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  constexpr size_t kRows = 100;
  constexpr size_t kColumns = 130;
  std::vector<double> target;
  std::vector<double> golden;
  std::vector<double> open_target;
  std::vector<double> open_golden;
  for (size_t i = 0; i < kRows * kColumns; ++i) {
    const double g = normal(random);
    const double t = g + 1e-3 * normal(random);
    const bool is_closed = i % kColumns > i / kColumns;
    target.push_back(is_closed ? t - 65504 : t);
    golden.push_back(is_closed ? -kInfinity : g);
    if (is_closed) continue;
    open_target.push_back(t);
    open_golden.push_back(g);
  }
  ElementRequest request = RequestOf(-65504, -0x1p128);
  request.sets = kToleranceSet;
  request.atol = 1e-3;
  request.row_elements = kColumns;
  request.row_count = kRows;
  const auto open = MeasureOpen(target, golden, request);
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(open->closed_count, golden.size() - open_golden.size());
  PairAccumulator accumulator(DType::kFloat64, DType::kFloat64);
  accumulator.Update(std::as_bytes(std::span(open_target)),
                     std::as_bytes(std::span(open_golden)));
  const PairMetrics expected = accumulator.Finish();
  for (const Metric metric :
       {Metric::kCosine, Metric::kMaxAbs, Metric::kMeanAbs, Metric::kRmse,
        Metric::kNl2, Metric::kMismatchCount, Metric::kMeanRel}) {
    EXPECT_NEAR(*open->metrics[metric] / *expected[metric], 1, 1e-12)
        << static_cast<int>(metric);
  }
  EXPECT_GE(*open->metrics[Metric::kRowNl2Max], *expected[Metric::kNl2]);
  EXPECT_GT(*open->elements[ElementMetric::kOutlierCount], 0);
  EXPECT_EQ(open->golden.count, open_golden.size());
  // The result does not depend on how the tensor is split.
  const auto cut = MeasureOpen(target, golden, request, 4096);
  EXPECT_EQ(cut->metrics[Metric::kNl2], open->metrics[Metric::kNl2]);
  EXPECT_EQ(cut->closed_count, open->closed_count);
}

TEST(OpenPairsTest, OtherTensorsAreNotTaken) {
  const ElementRequest request = RequestOf(-1e4, -1e4);
  EXPECT_TRUE(MeasureOpen({1, -1e4}, {1, -10020}, request).has_value());
  EXPECT_FALSE(MeasureOpen({1, 2}, {1, -1e4}, request).has_value());
  for (const double stray : {-9e3, 2e3, kInfinity, std::nan("")}) {
    EXPECT_FALSE(MeasureOpen({1, -1e4, stray}, {1, -1e4, 1}, request));
    EXPECT_FALSE(MeasureOpen({1, -1e4, 1}, {1, -1e4, stray}, request));
  }
  EXPECT_FALSE(MeasureOpen({1, -2e4}, {1, -1e4}, request).has_value());
  EXPECT_TRUE(
      MeasureOpen({1, -1e4, -2e4}, {1, -1e4, -1e4}, request).has_value());
}

TEST(OpenPairsTest, ValuesWithoutEvidenceOfAMaskAreOrdinary) {
  const ElementRequest request = RequestOf(-1e4, -1e4);
  // All places are closed, or there is a single large activation.
  EXPECT_FALSE(MeasureOpen({-1e4, -1e4}, {-10030, -1e4}, request).has_value());
  std::vector<double> few(64, 1);
  few[5] = -1e4;
  EXPECT_FALSE(MeasureOpen(few, few, request).has_value());
  ElementRequest softmax = request;
  softmax.closing->are_softmaxed = true;
  EXPECT_TRUE(MeasureOpen(few, few, softmax).has_value());
  // The closing values differ by more than scores of about 1 can cause.
  EXPECT_FALSE(
      MeasureOpen({1, -1e4, -10060}, {1, -1e4, -1e4}, request).has_value());
  EXPECT_TRUE(
      MeasureOpen({30, -1e4, -10060}, {30, -1e4, -1e4}, request).has_value());
}

TEST(OpenPairsTest, AClosedRowHasInfinityOnBothSidesOrOnNone) {
  ElementRequest request = RequestOf(-0x1p128, -1e9);
  request.row_elements = 2;
  request.row_count = 2;
  const std::vector<double> finite = {1, 2, -1e9, -1e9};
  const std::vector<double> infinite = {1, 2, -kInfinity, -kInfinity};
  EXPECT_FALSE(MeasureOpen(infinite, finite, request).has_value());
  EXPECT_TRUE(MeasureOpen(infinite, infinite, request).has_value());
  EXPECT_TRUE(
      MeasureOpen({1, -kInfinity, 2, 3}, {1, -1e9, 2, 3}, request).has_value());
}

}  // namespace
}  // namespace msitd::compute
