// SPDX-License-Identifier: Apache-2.0

// Pairs of tensors with the values that msit prints for them.
#include <cmath>
#include <limits>
#include <vector>

#include "daemon/compute/element_metrics.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/compute/metric_info.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct MsitVector {
  const char* what;
  DType target_dtype;
  DType golden_dtype;
  size_t count;
  double target[7];
  double golden[7];
  // Cosine, maximum and mean relative error, maximum and mean absolute error,
  // Euclidean distance. NaN if msit prints nothing.
  double expected[6];
};

constexpr MsitVector kVectors[] = {
    {"normal fp32 n=1 small noise",
     DType::kFloat32,
     DType::kFloat32,
     1,
     {0.50234454870224},
     {0.5006846189498901},
     {1.0, 0.0033153295516967773, 0.0033153295516967773, 0.0016599297523498535,
      0.0016599297523498535, 0.0033153200056403875}},
    {"normal fp16 n=7 small noise",
     DType::kFloat16,
     DType::kFloat16,
     7,
     {-1.939453125, -0.568359375, -0.732421875, -1.84375, 0.9873046875,
      1.7890625, 2.8828125},
     {-1.9384765625, -0.568359375, -0.73193359375, -1.8447265625, 0.9873046875,
      1.7880859375, 2.884765625},
     {0.9999998455, 0.0006770491600036621, 0.0004176327202003449, 0.001953125,
      0.0007672990905120969, 0.0005805646651424468}},
    {"normal bf16 n=1 small noise",
     DType::kBfloat16,
     DType::kBfloat16,
     1,
     {1.28125},
     {1.28125},
     {1.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"negative zeros",
     DType::kFloat32,
     DType::kFloat32,
     3,
     {0.0, -0.0, 0.0},
     {-0.0, 0.0, -0.0},
     {1.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"my all zero",
     DType::kFloat32,
     DType::kFloat32,
     3,
     {0.0, 0.0, 0.0},
     {1.0, 2.0, 3.0},
     {0.0, 1.0, 1.0, 3.0, 2.0, 1.0}},
    {"golden zero, my tiny 1e-30",
     DType::kFloat32,
     DType::kFloat32,
     4,
     {1e-30, 1e-30, 1e-30, 1e-30},
     {0.0, 0.0, 0.0, 0.0},
     {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"both tiny 1e-30 different",
     DType::kFloat32,
     DType::kFloat32,
     3,
     {-1e-30, 3e-30, 1e-30},
     {1e-30, -1e-30, 2e-30},
     {-0.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"tiny 1e-9 below cosine eps",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {2e-09, 1e-09},
     {1e-09, 2e-09},
     {0.0399999977, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"huge 1e30",
     DType::kFloat32,
     DType::kFloat32,
     3,
     {1e+30, -2e+30, 3.1e+30},
     {1e+30, -2e+30, 3e+30},
     {0.9998777665, 0.033333420753479004, 0.011111140251159668,
      1.000002281783378e+29, 3.3333409392779267e+28, kNaN}},
    {"1e19 (square overflows fp32)",
     DType::kFloat32,
     DType::kFloat32,
     3,
     {1.1e+19, 1e+19, -1e+19},
     {1e+19, 1e+19, -1e+19},
     {0.998961038, 0.10000002384185791, 0.033333342522382736,
      1.0000003279041331e+18, 3.3333344263471104e+17, 0.05773504450917244}},
    {"fp32 max vs -max (difference overflows)",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {-3.4028234663852886e+38, 1.0},
     {3.4028234663852886e+38, 1.0},
     {-1.0, 2.0, 1.0, kInf, kInf, kNaN}},
    {"eps boundary |g| = 2^-23",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {1.0, 1.0},
     {1.1920928955078125e-07, 1.0},
     {0.7071068655, 0.0, 0.0, 0.0, 0.0, 0.9999998807907104}},
    {"golden below eps masks absolute error",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {5.0, 1.0},
     {1e-08, 1.0},
     {0.1961161449, 0.0, 0.0, 0.0, 0.0, 5.0}},
    {"golden norm just above eps",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {3.0, 4.0},
     {1e-07, 1e-07},
     {0.9899494937, 0.0, 0.0, 0.0, 0.0, 35355340.0}},
    {"0-d vs 0-d",
     DType::kFloat32,
     DType::kFloat32,
     1,
     {4.0},
     {3.0},
     {1.0, 0.3333333730697632, 0.3333333730697632, 1.0, 1.0,
      0.3333333432674408}},
    {"int32",
     DType::kInt32,
     DType::kInt32,
     4,
     {1.0, 2.0, -3.0, 41.0},
     {1.0, 2.0, -3.0, 40.0},
     {0.9999974413, 0.02499997615814209, 0.0062499940395355225, 1.0, 0.25,
      0.024891337379813194}},
    {"int64 max",
     DType::kInt64,
     DType::kInt64,
     2,
     {9.223372036854776e+18, 1.0},
     {9.223372036854776e+18, 1.0},
     {1.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"uint8",
     DType::kUint8,
     DType::kUint8,
     3,
     {0.0, 254.0, 7.0},
     {0.0, 255.0, 7.0},
     {0.9999999942, 0.003921568393707275, 0.0013071894645690918, 1.0,
      0.3333333432674408, 0.0039200917817652225}},
    {"int8 vs fp32 (filtered in CSV)",
     DType::kFloat32,
     DType::kInt8,
     3,
     {1.0, -2.0, 3.0},
     {1.0, -2.0, 3.0},
     {1.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"fp16 max 65504",
     DType::kFloat16,
     DType::kFloat16,
     2,
     {65504.0, 2.0},
     {65504.0, 1.0},
     {0.9999999999, 1.0, 0.5, 1.0, 0.5, 1.526624328107573e-05}},
    {"orthogonal",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {0.0, 1.0},
     {1.0, 0.0},
     {0.0, 1.0, 0.5, 1.0, 0.5, 1.4142135381698608}},
    {"cosine rounding at 10 decimals",
     DType::kFloat32,
     DType::kFloat32,
     2,
     {1.0, -1e-05},
     {1.0, 1e-05},
     {0.9999999998, 2.0, 1.0, 1.9999999494757503e-05, 9.999999747378752e-06,
      1.9999999494757503e-05}},
    {"repo UT [10,1,1,1,1,1] vs zeros",
     DType::kFloat32,
     DType::kFloat32,
     6,
     {0.0, 0.0, 0.0, 0.0, 0.0, 0.0},
     {10.0, 1.0, 1.0, 1.0, 1.0, 1.0},
     {0.0, 1.0, 1.0, 10.0, 2.5, 1.0}},
};

TEST(MsitVectorsTest, MetricsAreThoseThatMsitPrints) {
  for (const MsitVector& v : kVectors) {
    SCOPED_TRACE(v.what);
    std::vector<std::byte> target;
    std::vector<std::byte> golden;
    for (size_t i = 0; i < v.count; ++i) {
      Append(v.target_dtype, v.target[i], target);
      Append(v.golden_dtype, v.golden[i], golden);
    }
    ElementRequest request;
    request.sets = kMsitSet;
    ElementAccumulator accumulator(v.target_dtype, v.golden_dtype, request);
    accumulator.Update(target, golden);
    const ElementMetrics metrics = accumulator.Finish();
    for (int i = 0; i < 6; ++i) {
      const auto metric = static_cast<ElementMetric>(
          static_cast<int>(ElementMetric::kMsitCosine) + i);
      SCOPED_TRACE(InfoOf(metric).name);
      const double expected = v.expected[i];
      if (std::isnan(expected)) {
        EXPECT_FALSE(metrics[metric].has_value());
        continue;
      }
      ASSERT_TRUE(metrics[metric].has_value());
      if (std::isinf(expected)) {
        EXPECT_EQ(*metrics[metric], expected);
        continue;
      }
      // msit rounds the cosine to ten decimals. Maxima are exact.
      const double tolerance = metric == ElementMetric::kMsitCosine ? 1e-9
                               : metric == ElementMetric::kMsitMaxRel ||
                                       metric == ElementMetric::kMsitMaxAbs
                                   ? 0
                                   : 1e-6 * std::fabs(expected);
      EXPECT_NEAR(*metrics[metric], expected, tolerance);
    }
  }
}

}  // namespace
}  // namespace msitd::compute
