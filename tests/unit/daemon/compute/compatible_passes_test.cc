// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <optional>
#include <ostream>
#include <vector>

#include "daemon/compute/element_metrics.h"
#include "gtest/gtest.h"
#include "protos/compute/digest.h"
#include "protos/compute/number/element.h"
#include "tests/unit/daemon/compute/metric_info.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

using M = ElementMetric;
using D = DType;
using Values = std::vector<double>;
using Expected = std::optional<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// For complex dtypes, the values are components.
std::vector<std::byte> BytesOf(const Values& values, DType dtype) {
  std::vector<std::byte> out;
  for (const double value : values) Append(ComponentOf(dtype), value, out);
  return out;
}

ElementMetrics Measure(const Values& target, const Values& golden,
                       DType target_dtype, DType golden_dtype,
                       const ElementRequest& request) {
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

struct MsprobeCase {
  const char* name;
  DType target_dtype;
  DType golden_dtype;
  Values target;
  Values golden;
  // Cosine, EucDist, MaxAbsErr, MaxRelativeErr and both ratios.
  Expected expected[6];
};

// The values that msprobe 26.2.0 writes for saved tensors, with 12 decimals.
const MsprobeCase kMsprobeCases[] = {
    {"inf_ratio",
     D::kFloat32,
     D::kFloat32,
     {1, 2},
     {0, 0},
     {{}, 2.23606797749979, 2, 16777215, 0, 0}},
    {"golden0_tiny",
     D::kFloat32,
     D::kFloat32,
     {9.999999960041972e-12, 1, 2, 3},
     {0, 1, 2, 3},
     {1, 9.999999960041972e-12, 1e-11, 8.392334e-05, 1, 1}},
    {"golden0_int",
     D::kInt32,
     D::kInt32,
     {1, 1, 2},
     {0, 1, 2},
     {0.912870929175, 1, 1, 4503599627370496, 0.666666666667, 0.666666666667}},
    {"int8",
     D::kInt8,
     D::kInt8,
     {100, -100, 3},
     {-100, 100, 7},
     {-0.99750411706, 282.8709953317943, 200, 2, 0, 0}},
    {"one", D::kFloat32, D::kFloat32, {2.5}, {2}, {{}, {}, 0.5, 0.25, {}, {}}},
    {"scalar",
     D::kFloat32,
     D::kFloat32,
     {2.5},
     {2},
     {{}, {}, 0.5, 0.25, {}, {}}},
    {"scalarhalf",
     D::kFloat16,
     D::kFloat16,
     {2.5},
     {0.0999755859375},
     {{}, {}, 2.400390625, 24.006105422974, {}, {}}},
    {"scalaru8", D::kUint8, D::kUint8, {3}, {5}, {{}, {}, 254, 0.4, {}, {}}},
    {"scalari8", D::kInt8, D::kInt8, {-100}, {100}, {{}, {}, 56, 2, {}, {}}},
    {"scalarbool",
     D::kBool,
     D::kBool,
     {1},
     {0},
     {{}, {}, 1, 4503599627370496, {}, {}}},
    {"scalarnan",
     D::kFloat32,
     D::kFloat32,
     {kNaN},
     {kNaN},
     {{}, {}, {}, {}, {}, {}}},
    {"scalarinf",
     D::kFloat32,
     D::kFloat32,
     {kInf},
     {kInf},
     {{}, {}, {}, {}, {}, {}}},
    {"scalarinf1",
     D::kFloat32,
     D::kFloat32,
     {kInf},
     {1},
     {{}, {}, kInf, kInf, {}, {}}},
    {"scalar64",
     D::kFloat64,
     D::kFloat64,
     {2.5},
     {2},
     {{}, {}, 0.5, 0.25, {}, {}}},
    {"onenan", D::kFloat32, D::kFloat32, {kNaN}, {1}, {{}, {}, {}, {}, {}, {}}},
    {"infsign",
     D::kFloat32,
     D::kFloat32,
     {kInf, 1, 2},
     {-kInf, 1, 2.5},
     {0.996545758245, 0.5, 0.5, 0.20000000298, 0.666666666667, 0.666666666667}},
    {"infpos",
     D::kFloat32,
     D::kFloat32,
     {kInf, 1, 2},
     {1, kInf, 2.5},
     {{}, {}, {}, {}, {}, {}}},
    {"nanboth",
     D::kFloat32,
     D::kFloat32,
     {kNaN, 1, 2},
     {kNaN, 1, 2.5},
     {0.996545758245, 0.5, 0.5, 0.20000000298, 0.666666666667, 0.666666666667}},
    {"allnan",
     D::kFloat32,
     D::kFloat32,
     {kNaN, kNaN},
     {kNaN, kNaN},
     {1, 0, 0, 0, 1, 1}},
    {"naninf",
     D::kFloat32,
     D::kFloat32,
     {kNaN, 1},
     {kInf, 1},
     {{}, {}, {}, {}, {}, {}}},
    {"nangold",
     D::kFloat32,
     D::kFloat32,
     {1, 1},
     {kNaN, 1},
     {{}, {}, {}, {}, {}, {}}},
    {"zerot",
     D::kFloat32,
     D::kFloat32,
     {0, 0},
     {1, 2},
     {{}, 2.23606797749979, 2, 1, 0, 0}},
    {"zerog",
     D::kFloat32,
     D::kFloat32,
     {1, 2},
     {0, 0},
     {{}, 2.23606797749979, 2, 16777215, 0, 0}},
    {"zeros", D::kFloat32, D::kFloat32, {0, 0}, {0, -0}, {1, 0, 0, 0, 1, 1}},
    {"f64",
     D::kFloat64,
     D::kFloat64,
     {1, 2},
     {1, 2.5},
     {0.996545758245, 0.5, 0.5, 0.2, 0.5, 0.5}},
    {"f64x32",
     D::kFloat64,
     D::kFloat32,
     {1, 2},
     {1, 2.5},
     {0.996545758245, 0.5, 0.5, 0.2, 0.5, 0.5}},
    {"halfx32",
     D::kFloat16,
     D::kFloat32,
     {1, 2},
     {1, 2.5},
     {0.996545758245, 0.5, 0.5, 0.20000000298, 0.5, 0.5}},
    {"bfx32",
     D::kBfloat16,
     D::kFloat32,
     {1, 2},
     {1, 2.5},
     {0.996545758245, 0.5, 0.5, 0.20000000298, 0.5, 0.5}},
    {"f8",
     D::kFloat8E4m3fn,
     D::kFloat8E4m3fn,
     {1, 2},
     {1, 3},
     {0.989949493661, 1, 1, 0.333333343267, 0.5, 0.5}},
    {"bool",
     D::kBool,
     D::kBool,
     {1, 0},
     {1, 1},
     {0.707106781187, 1, 1, 1, 0.5, 0.5}},
    {"boolsame",
     D::kBool,
     D::kBool,
     {1, 0},
     {0, 1},
     {0, 1.4142135623730951, 1, 4503599627370496, 0, 0}},
    {"complex",
     D::kComplex64,
     D::kComplex64,
     {1, 2, 3, -1},
     {1, 1, 3.5, -1},
     {0.999056158355, 0.5, 0.5, 0.142857142857, 0.5, 0.5}},
    {"complexnan",
     D::kComplex64,
     D::kComplex64,
     {1, kNaN, 3, -1},
     {1, 1, 3.5, -1},
     {0.999056158355, 0.5, 0.5, 0.142857142857, 0.5, 0.5}},
    {"complexscalar",
     D::kComplex64,
     D::kComplex64,
     {1, 2},
     {1, 1},
     {{}, {}, 1, 0, {}, {}}},
    {"halfover",
     D::kFloat16,
     D::kFloat16,
     {60000, 60000},
     {60000, 60000},
     {1, 0, 0, 0, 1, 1}},
    {"f64big",
     D::kFloat64,
     D::kFloat64,
     {1e+200, 1e+200},
     {1e+200, 2e+200},
     {{}, kInf, 1e+200, 0.5, 0.5, 0.5}},
    {"f64max",
     D::kFloat64,
     D::kFloat64,
     {1.7e+308, 1},
     {-1.7e+308, 1},
     {{}, kInf, kInf, kInf, 0.5, 0.5}},
    {"big12",
     D::kFloat64,
     D::kFloat64,
     {123456789.123, 3},
     {1, 3},
     {0.31622778907, 123456788.123, 123456788.123, 123456788.123, 0.5, 0.5}},
    {"minf",
     D::kFloat32,
     D::kFloat32,
     {-kInf, 1},
     {-kInf, 2},
     {1, 1, 1, 0.5, 0.5, 0.5}},
    {"pinfminf",
     D::kFloat32,
     D::kFloat32,
     {-kInf, kInf, 1},
     {-kInf, kInf, 2},
     {1, 1, 1, 0.5, 0.666666666667, 0.666666666667}},
    {"halfrelthr",
     D::kFloat32,
     D::kFloat32,
     {1.0010000467300415, 1},
     {1, 1},
     {1, 0.001000046730041504, 0.00100004673, 0.00100004673, 0.5, 1}},
};

constexpr M kMsprobeColumns[] = {
    M::kMsprobeCosine, M::kMsprobeEuclid,          M::kMsprobeMaxAbs,
    M::kMsprobeMaxRel, M::kMsprobeWithin1Permille, M::kMsprobeWithin5Permille};

TEST(MsprobePassTest, CellsAreThoseOfMsprobe) {
  for (const MsprobeCase& c : kMsprobeCases) {
    const ElementMetrics metrics = Measure(c.target, c.golden, c.target_dtype,
                                           c.golden_dtype, Ask(kMsprobeSet));
    for (int i = 0; i < 6; ++i) {
      const M column = kMsprobeColumns[i];
      SCOPED_TRACE(testing::Message() << c.name << ' ' << InfoOf(column).name);
      ASSERT_EQ(metrics[column].has_value(), c.expected[i].has_value());
      if (!c.expected[i].has_value()) continue;
      if (std::isinf(*c.expected[i])) {
        EXPECT_EQ(*metrics[column], *c.expected[i]);
      } else {
        // msprobe writes a cosine above 0.9999 with 6 decimals.
        const bool is_short = i == 0 && *c.expected[i] > 0.9999;
        EXPECT_NEAR(*metrics[column], *c.expected[i], is_short ? 5e-7 : 1e-12);
      }
    }
  }
}

TEST(MsprobePassTest, EqualBytesNeedNotBeRead) {
  for (const MsprobeCase& c : kMsprobeCases) {
    const std::vector<std::byte> bytes = BytesOf(c.target, c.target_dtype);
    ElementRequest request = Ask(kMsprobeSet | kMsitSet | kToleranceSet);
    for (const bool either : {false, true}) {
      request.either = either;
      const ElementMetrics read =
          Measure(c.target, c.target, c.target_dtype, c.target_dtype, request);
      const ElementMetrics known = ElementMetricsOfEqual(
          c.target_dtype, Summarize(bytes, c.target_dtype), request);
      for (int i = 0; i < kElementMetricCount; ++i) {
        const auto metric = static_cast<M>(i);
        // A summary does not show whether the NaN is in a real part.
        if (IsComplex(c.target_dtype) && InfoOf(metric).set == kMsitSet) {
          continue;
        }
        SCOPED_TRACE(testing::Message()
                     << c.name << ' ' << InfoOf(metric).name);
        ASSERT_EQ(read[metric].has_value(), known[metric].has_value());
        if (!read[metric].has_value()) continue;
        if (std::isinf(*known[metric])) {
          EXPECT_EQ(*read[metric], *known[metric]);
        } else {
          EXPECT_NEAR(*read[metric], *known[metric], 1e-12);
        }
      }
    }
  }
}

// A tensor may be split into pieces at any element.
TEST(MsprobePassTest, PiecesAreOneTensor) {
  const Values target = {1, kNaN, 3, 4, 5, 6};
  const Values golden = {1, kNaN, 3, 4, 5, 7};
  for (const DType dtype : {DType::kFloat32, DType::kComplex64}) {
    const ElementMetrics whole =
        Measure(target, golden, dtype, dtype, Ask(kMsprobeSet | kMsitSet));
    ElementAccumulator pieces(dtype, dtype, Ask(kMsprobeSet | kMsitSet));
    for (size_t i = 0; i < target.size(); i += 2) {
      pieces.Update(BytesOf({target[i], target[i + 1]}, dtype),
                    BytesOf({golden[i], golden[i + 1]}, dtype));
    }
    const ElementMetrics joined = pieces.Finish();
    for (int i = 0; i < kElementMetricCount; ++i) {
      EXPECT_EQ(whole[static_cast<M>(i)], joined[static_cast<M>(i)]);
    }
  }
}

// The expected values are cosine_similarity, kl_div and others from torch,
// applied to the real parts as float.
TEST(MsitPassTest, OfComplexElementsTheRealPartsCount) {
  const ElementMetrics m =
      Measure({1, 2, 3, kNaN, 0, 1}, {1, 1, 3.5, -1, 0.25, 1},
              DType::kComplex64, DType::kComplex64, Ask(kMsitSet));
  EXPECT_NEAR(*m[M::kMsitCosine], 0.9967081970, 1e-9);
  EXPECT_NEAR(*m[M::kMsitMaxRel], 1, 1e-7);
  EXPECT_NEAR(*m[M::kMsitMeanRel], (1 + 1 / 7.0) / 3, 1e-6);
  EXPECT_EQ(*m[M::kMsitMaxAbs], 0.5);
  EXPECT_NEAR(*m[M::kMsitMeanAbs], 0.25, 1e-7);
  EXPECT_NEAR(*m[M::kMsitEuclid], 0.1532128602, 1e-7);
  EXPECT_NEAR(*m[M::kMsitKl], 0.0104851592, 1e-9);
}

// |d| and |g| are moduli, as in torch.testing.assert_close.
TEST(ToleranceTest, ComplexElementsAreJudgedByTheirModulus) {
  ElementRequest request = Ask(kToleranceSet);
  request.atol = 4.5;
  // d is 3 + 4i. Its components are within the tolerance, but its modulus is
  // not.
  ElementMetrics m = Measure({3, 4, 1, 1}, {0, 0, 1, 1}, DType::kComplex64,
                             DType::kComplex64, request);
  EXPECT_EQ(m[M::kOutlierCount], 1);
  EXPECT_EQ(m[M::kAtolNeeded], 5);
  // A component that is zero does not make a golden element zero.
  request.atol = 0;
  request.rtol = 1e-3;
  m = Measure({100, 0.05}, {100, 0}, DType::kComplex128, DType::kComplex128,
              request);
  EXPECT_EQ(m[M::kOutlierCount], 0);
  m = Measure({kNaN, 1, kNaN, 1, kInf, 2}, {kNaN, 1, kNaN, 2, kInf, 2},
              DType::kComplex64, DType::kComplex64, request);
  EXPECT_EQ(m[M::kOutlierCount], 1);
}

// The modulus of 1.5e308 (1 + i) exceeds the range of double.
TEST(ToleranceTest, ModulusBeyondDoubleIsStillCompared) {
  constexpr double kLarge = 1.5e308;
  for (const bool either : {false, true}) {
    ElementRequest request = Ask(kToleranceSet);
    request.rtol = 1e-7;
    request.either = either;
    const auto measure = [&](double share) {
      return Measure({kLarge * share, kLarge * share}, {kLarge, kLarge},
                     DType::kComplex128, DType::kComplex128, request);
    };
    EXPECT_EQ(measure(1 - 1e-9)[M::kOutlierCount], 0);
    const ElementMetrics m = measure(0.75);
    EXPECT_EQ(m[M::kOutlierCount], 1);
    EXPECT_NEAR(*m[M::kRtolNeeded], 0.25, 1e-12);
    request.rtol = *m[M::kRtolNeeded];
    EXPECT_EQ(measure(0.75)[M::kOutlierCount], 0);
    request.rtol = 1e-7;
    // The modulus of this difference exceeds the range as well.
    EXPECT_EQ(measure(-1)[M::kOutlierCount], 1);
  }
}

// In Polygraphy, NaN and infinities have no distance, not even to themselves.
TEST(ToleranceTest, PolygraphyFailsWhatIsNotFinite) {
  ElementRequest request = Ask(kToleranceSet);
  request.atol = request.rtol = 1e-5;
  request.either = true;
  const ElementMetrics m =
      Measure({kNaN, kInf, -kInf, 1, kInf}, {kNaN, kInf, kInf, 1, 1},
              DType::kFloat32, DType::kFloat32, request);
  EXPECT_EQ(m[M::kOutlierCount], 4);
  EXPECT_EQ(m[M::kAtolNeeded], kInf);
  EXPECT_EQ(m[M::kRtolNeeded], kInf);
}

}  // namespace
}  // namespace msitd::compute
