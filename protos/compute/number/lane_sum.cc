// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/number/lane_sum.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace msitd::compute {
namespace {

bool AllZero(const double (&lanes)[kFoldLanes]) {
  return std::all_of(std::begin(lanes), std::end(lanes),
                     [](double lane) { return lane == 0; });
}

}  // namespace

void LaneSum::Add(const double (&block)[kFoldLanes], int64_t block_exponent) {
  if (block_exponent != exponent) {
    if (AllZero(block)) return;
    if (AllZero(lane)) exponent = block_exponent;
  }
  double block_scale = 1;
  if (block_exponent > exponent) {
    for (double& l : lane) l = Scale(l, exponent - block_exponent);
    exponent = block_exponent;
  } else if (block_exponent < exponent) {
    block_scale = Scale(1, block_exponent - exponent);
  }
  for (size_t j = 0; j < kFoldLanes; ++j) lane[j] += block[j] * block_scale;
}

double LaneSum::Mantissa() const {
  const double even = (lane[0] + lane[4]) + (lane[2] + lane[6]);
  const double odd = (lane[1] + lane[5]) + (lane[3] + lane[7]);
  return even + odd;
}

double LaneSum::Value() const { return Scale(Mantissa(), exponent); }

void Fold(const double (&virtual_lane)[kVirtualLanes],
          double (&out)[kFoldLanes]) {
  for (size_t j = 0; j < kFoldLanes; ++j) {
    out[j] = virtual_lane[j] + virtual_lane[j + kFoldLanes];
  }
}

void SumBlock(const double (&x)[kBlockElements], double (&out)[kFoldLanes]) {
  double lanes[kVirtualLanes] = {};
  for (size_t row = 0; row < kRowsPerBlock; ++row) {
    for (size_t l = 0; l < kVirtualLanes; ++l) {
      lanes[l] += x[row * kVirtualLanes + l];
    }
  }
  Fold(lanes, out);
}

double Scale(double x, int64_t exponent) {
  // Beyond 5000 every double is 0 or infinite.
  return std::ldexp(x, static_cast<int>(std::clamp<int64_t>(
                           exponent, int64_t{-5000}, int64_t{5000})));
}

double Log(double x) {
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 atanh s; |s| < 0.1716, so s^24 is below one rounding.
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
  return exponent * kLn2High + (2 * s + (2 * s * series + exponent * kLn2Low));
}

}  // namespace msitd::compute
