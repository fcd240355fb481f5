// SPDX-License-Identifier: Apache-2.0
#include "protos/base/rounding.h"

#include <algorithm>
#include <cmath>

namespace msitd {
namespace {

// Rounds to `digits` significant bits, or fewer below the smallest normal
// number, which is 2^(`exponent_min` - 1).
double RoundToDigits(double value, int digits, int exponent_min, double max) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit =
      std::ldexp(1.0, std::max(exponent, exponent_min) - digits);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::fabs(rounded) <= max ? rounded : std::copysign(HUGE_VAL, rounded);
}

}  // namespace

double RoundTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat16:
      return RoundToDigits(value, 11, -13, 65504);
    case DType::kBfloat16:
      return RoundToDigits(value, 8, -125, 0x1.FEp127);
    case DType::kFloat32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

}  // namespace msitd
