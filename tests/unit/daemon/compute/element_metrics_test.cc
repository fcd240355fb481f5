// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/element_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protos/compute/digest.h"
#include "tests/unit/daemon/compute/metric_info.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

using M = ElementMetric;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr uint32_t kAllSets = 2 * kMsprobeSet - 1;

std::vector<std::byte> BytesOf(const Values& values, DType dtype) {
  std::vector<std::byte> out;
  for (const double value : values) Append(dtype, value, out);
  return out;
}

ElementMetrics Measure(const Values& target, const Values& golden,
                       const ElementRequest& request,
                       DType target_dtype = DType::kFloat32,
                       DType golden_dtype = DType::kFloat32) {
  ElementAccumulator accumulator(target_dtype, golden_dtype, request);
  accumulator.Update(BytesOf(target, target_dtype),
                     BytesOf(golden, golden_dtype));
  return accumulator.Finish();
}

ElementRequest Ask(uint32_t sets) {
  ElementRequest request;
  request.sets = sets;
  return request;
}

TEST(ElementMetricsTest, LongIntegersThatDifferAreOutliers) {
  const auto outliers = [](auto target, auto golden, DType target_dtype,
                           DType golden_dtype, double atol) {
    ElementRequest request = Ask(kToleranceSet);
    request.atol = atol;
    ElementAccumulator accumulator(target_dtype, golden_dtype, request);
    accumulator.Update(std::as_bytes(std::span(target)),
                       std::as_bytes(std::span(golden)));
    return accumulator.Finish();
  };
  constexpr int64_t kBig = (int64_t{1} << 62) + 1;
  const std::vector<int64_t> target = {kBig, kBig, 5};
  ElementMetrics metrics =
      outliers(target, std::vector<int64_t>{kBig + 1, kBig + 2, 5},
               DType::kInt64, DType::kInt64, 0);
  EXPECT_EQ(metrics[M::kOutlierCount], 2);
  EXPECT_EQ(metrics[M::kAtolNeeded], 2);
  metrics = outliers(target, std::vector<uint64_t>{kBig + 1, kBig + 2, 5},
                     DType::kInt64, DType::kUint64, 1);
  EXPECT_EQ(metrics[M::kOutlierCount], 1);
}

TEST(ElementMetricsTest, NothingIsComputedThatWasNotAskedFor) {
  const ElementMetrics metrics = Measure({1, 2}, {1, 3}, Ask(kUlpSet));
  for (int i = 0; i < kElementMetricCount; ++i) {
    const auto metric = static_cast<M>(i);
    EXPECT_EQ(metrics[metric].has_value(), InfoOf(metric).set == kUlpSet)
        << InfoOf(metric).name;
  }
}

TEST(ElementMetricsTest, ToleranceCountsOutliersAndSaysWhatWouldPass) {
  ElementRequest request = Ask(kToleranceSet);
  request.rtol = 0.5;
  request.atol = 1;
  // The limits 1 + 0.5 |g| are 6, 1 and 2.
  const ElementMetrics m = Measure({17, 3, 4}, {10, 0, 2}, request,
                                   DType::kFloat64, DType::kFloat64);
  EXPECT_EQ(m[M::kOutlierCount], 2);
  EXPECT_EQ(m[M::kAtolNeeded], 3);
  EXPECT_EQ(m[M::kRtolNeeded], kInf);
  for (const bool by_atol : {true, false}) {
    ElementRequest again = request;
    (by_atol ? again.atol : again.rtol) =
        *m[by_atol ? M::kAtolNeeded : M::kRtolNeeded];
    EXPECT_EQ(Measure({17, 3, 4}, {10, 0.25, 2}, again)[M::kOutlierCount], 0);
  }
}

TEST(ElementMetricsTest, EitherToleranceWillDo) {
  ElementRequest request = Ask(kToleranceSet);
  request.rtol = 0.1;
  request.atol = 1;
  request.either = true;
  // The elements are within rtol, within atol, and within neither.
  const ElementMetrics m = Measure({105, 0.5, 13}, {100, 0, 10}, request);
  EXPECT_EQ(m[M::kOutlierCount], 1);
  EXPECT_EQ(m[M::kAtolNeeded], 3);
  EXPECT_DOUBLE_EQ(*m[M::kRtolNeeded], 0.3);
}

TEST(ElementMetricsTest, NonFinitePairsAreOutliersUnlessEqual) {
  const Values target = {kNaN, kInf, -kInf, kNaN, kInf};
  const Values golden = {kNaN, kInf, kInf, 1, 1};
  const ElementMetrics m = Measure(target, golden, Ask(kToleranceSet));
  EXPECT_EQ(m[M::kOutlierCount], 3);
  EXPECT_EQ(m[M::kAtolNeeded], kInf);
}

TEST(ElementMetricsTest, UlpsAreCountedThroughZeroInEveryFormat) {
  for (const DType dtype :
       {DType::kFloat8E5m2, DType::kFloat16, DType::kBfloat16, DType::kFloat32,
        DType::kFloat64}) {
    const auto ulp = [&](double t, double g) {
      return *Measure({t}, {g}, Ask(kUlpSet), dtype, dtype)[M::kMaxUlp];
    };
    EXPECT_EQ(ulp(1, 1), 0);
    EXPECT_EQ(ulp(-0.0, 0.0), 0);
    EXPECT_EQ(ulp(2, 1), ulp(-1, -2));
    EXPECT_EQ(ulp(1, -1), 2 * ulp(1, 0)) << DTypeName(dtype);
  }
  EXPECT_EQ(Measure({1 + 0x1p-23}, {1}, Ask(kUlpSet))[M::kMaxUlp], 1);
  EXPECT_EQ(Measure({2}, {1}, Ask(kUlpSet))[M::kMaxUlp], 1 << 23);
  EXPECT_EQ(Measure({1, 1 + 0x1p-21}, {1, 1}, Ask(kUlpSet))[M::kMeanUlp], 2);
}

TEST(ElementMetricsTest, UlpsNeedOneFloatingPointType) {
  EXPECT_FALSE(Measure({1}, {2}, Ask(kUlpSet), DType::kInt32,
                       DType::kInt32)[M::kMaxUlp]);
  EXPECT_FALSE(Measure({1}, {2}, Ask(kUlpSet), DType::kFloat32,
                       DType::kFloat16)[M::kMaxUlp]);
}

TEST(ElementMetricsTest, SharesCountEqualNonFinitePairsAsWithin) {
  const ElementMetrics m =
      Measure({1.0005, 1.002, 1.1, 0, 1, kInf, kNaN, kNaN},
              {1, 1, 1, 0, 0, kInf, kNaN, 1}, Ask(kShareSet));
  EXPECT_DOUBLE_EQ(*m[M::kWithin1Permille], 4.0 / 8);
  EXPECT_DOUBLE_EQ(*m[M::kWithin5Permille], 5.0 / 8);
}

TEST(ElementMetricsTest, PercentilesAreWithinTheStatedError) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> noise(-3, 4);
  Values target(10001);
  Values sorted;
  for (double& t : target) sorted.push_back(t = noise(random));
  std::sort(sorted.begin(), sorted.end());
  const ElementMetrics m =
      Measure(target, Values(target.size(), 0), Ask(kPercentileSet),
              DType::kFloat64, DType::kFloat64);
  for (const auto& [metric, share] :
       {std::pair(M::kAbsP50, 0.5), std::pair(M::kAbsP90, 0.9),
        std::pair(M::kAbsP95, 0.95), std::pair(M::kAbsP99, 0.99)}) {
    const auto rank = static_cast<size_t>(std::ceil(share * 10001)) - 1;
    EXPECT_NEAR(*m[metric], sorted[rank], sorted[rank] / 128);
  }
  EXPECT_EQ(Measure({1, 1, 1}, {1, 1, 2}, Ask(kPercentileSet))[M::kAbsP50], 0);
}

TEST(ElementMetricsTest, PearsonIsStableFarFromZero) {
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  Values target;
  Values golden;
  Values shifted;
  for (int i = 0; i < 5000; ++i) {
    golden.push_back(normal(random));
    target.push_back(golden.back() + normal(random));
    shifted.push_back(golden.back() + 0x1p30);
  }
  const auto pearson = [](const Values& t, const Values& g) {
    return Measure(t, g, Ask(kPearsonSet), DType::kFloat64,
                   DType::kFloat64)[M::kPearson];
  };
  EXPECT_NEAR(*pearson(target, shifted), *pearson(target, golden), 1e-6);
  EXPECT_NEAR(*pearson(golden, shifted), 1, 1e-9);
  EXPECT_FALSE(pearson({1, 1}, {1, 2}));
}

TEST(ElementMetricsTest, BitsTellZerosAndNansApart) {
  EXPECT_EQ(
      Measure({0, 1, 2}, {-0.0, 1, 3}, Ask(kBitSet))[M::kBitMismatchCount], 2);
  EXPECT_FALSE(Measure({1}, {1}, Ask(kBitSet), DType::kFloat32,
                       DType::kFloat64)[M::kBitMismatchCount]);
}

TEST(ElementMetricsTest, TopKIsTakenRowByRowHoweverThePairIsCut) {
  ElementRequest request = Ask(kTopKSet);
  request.top_k = 2;
  request.row_elements = 4;
  const Values target = {1, 5, 3, 0, /**/ 9, 1, 8, 0};
  const Values golden = {1, 5, 0, 3, /**/ 1, 9, 8, 0};
  ElementAccumulator pieces(DType::kFloat32, DType::kFloat32, request);
  for (size_t i = 0; i < target.size(); ++i) {
    pieces.Update(BytesOf({target[i]}, DType::kFloat32),
                  BytesOf({golden[i]}, DType::kFloat32));
  }
  const ElementMetrics m = pieces.Finish();
  EXPECT_EQ(m[M::kArgmaxAgreement], 0.5);
  EXPECT_EQ(m[M::kTopKOverlap], 0.5);
  // NaN is the largest value. Among equal values, the first one is the maximum.
  request.row_elements = 3;
  EXPECT_EQ(Measure({1, kNaN, 3}, {1, 9, 3}, request)[M::kArgmaxAgreement], 1);
  EXPECT_EQ(Measure({2, 2, 2}, {2, 1, 1}, request)[M::kArgmaxAgreement], 1);
}

// The rows of docs/metrics.md: empty, one element, zeros, and non-finite input.
TEST(ElementMetricsTest, EqualTensorsNeedNotBeRead) {
  const std::vector<Values> tensors = {{},        {7},       {0, 0},
                                       {1, 2, 3}, {kNaN, 1}, {kInf, 1},
                                       {kNaN},    {1e30, 1}, {1e-30, 2e-30}};
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kInt32}) {
    for (const Values& tensor : tensors) {
      const bool finite = std::all_of(tensor.begin(), tensor.end(),
                                      [](double x) { return x < 100; });
      if (dtype == DType::kInt32 && !finite) continue;
      ElementRequest request = Ask(kAllSets);
      request.row_elements = std::max<size_t>(tensor.size(), 1);
      const auto bytes = BytesOf(tensor, dtype);
      const ElementMetrics read =
          Measure(tensor, tensor, request, dtype, dtype);
      const ElementMetrics known =
          ElementMetricsOfEqual(dtype, Summarize(bytes, dtype), request);
      for (int i = 0; i < kElementMetricCount; ++i) {
        const auto metric = static_cast<M>(i);
        ASSERT_EQ(read[metric].has_value(), known[metric].has_value())
            << InfoOf(metric).name << " of " << tensor.size();
        if (!read[metric]) continue;
        EXPECT_NEAR(*read[metric], *known[metric], 1e-12)
            << InfoOf(metric).name;
      }
    }
  }
}

TEST(ElementMetricsTest, MsitLeavesOutErrorsWhereGoldenIsNearlyZero) {
  const ElementMetrics m = Measure({1, 2.5}, {0, 2}, Ask(kMsitSet));
  EXPECT_EQ(m[M::kMsitMaxAbs], 0.5);
  EXPECT_EQ(m[M::kMsitMaxRel], 0.25);
  EXPECT_EQ(m[M::kMsitMeanAbs], 0.25);
  EXPECT_EQ(Measure({1, 1}, {0, 0}, Ask(kMsitSet))[M::kMsitEuclid], 0);
  EXPECT_EQ(Measure({1, 1}, {0, 0}, Ask(kMsitSet))[M::kMsitCosine], 0);
  EXPECT_FALSE(Measure({kInf}, {1}, Ask(kMsitSet))[M::kMsitCosine]);
}

TEST(ElementMetricsTest, MsprobeAddsARoundingUnitWhereGoldenIsZero) {
  const auto max_rel = [](const Values& t, const Values& g) {
    return *Measure(t, g, Ask(kMsprobeSet))[M::kMsprobeMaxRel];
  };
  EXPECT_EQ(max_rel({1, 2}, {1, 1}), 1);
  EXPECT_EQ(max_rel({0}, {0}), 0);
  EXPECT_NEAR(max_rel({1}, {0}), 0x1p23, 1);
}

TEST(ElementMetricsTest, ExtremesAreAbsentRatherThanWrong) {
  const auto measure = [](const Values& t, const Values& g, uint32_t set) {
    return Measure(t, g, Ask(set), DType::kFloat64, DType::kFloat64);
  };
  // Squares that underflow, and products that are infinite.
  EXPECT_FALSE(measure({1e-160, 2e-160, 4e-160}, {1e-160, 3e-160, 4e-160},
                       kPearsonSet)[M::kPearson]);
  EXPECT_FALSE(measure({1e300, -1e300, 1e308}, {1e300, -1e300, -1e308},
                       kPearsonSet)[M::kPearson]);
  EXPECT_NEAR(*measure({1e-120, 2e-120, 4e-120}, {2e-120, 4e-120, 8e-120},
                       kPearsonSet)[M::kPearson],
              1, 1e-12);
  const ElementMetrics m = measure({1.7e308, 1}, {-1.7e308, 1}, kPercentileSet);
  EXPECT_EQ(m[M::kAbsP50], 0);
  EXPECT_EQ(m[M::kAbsP99], kInf);
}

TEST(ElementMetricsTest, NamesAreUnique) {
  for (int i = 0; i < kElementMetricCount; ++i) {
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(InfoOf(static_cast<M>(i)).name, InfoOf(static_cast<M>(j)).name);
    }
  }
}

}  // namespace
}  // namespace msitd::compute
