// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/summary_state.h"

#include <algorithm>
#include <cmath>

#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

// Counts NaN, infinities and zeros, takes extremes, replaces elements that are
// not finite by zeros, and returns the largest finite magnitude.
double TakeOrder(double (&x)[kBlockElements], size_t count,
                 SummaryState& state) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(x[i])) {
      ++state.nan_count;
      x[i] = 0;
      continue;
    }
    state.min = std::min(state.min, x[i]);
    state.max = std::max(state.max, x[i]);
    if (std::isinf(x[i])) {
      ++(x[i] > 0 ? state.positive_infinity_count
                  : state.negative_infinity_count);
      x[i] = 0;
      continue;
    }
    if (x[i] == 0) ++state.zero_count;
    largest = std::max(largest, std::fabs(x[i]));
  }
  return largest;
}

}  // namespace

void AddCarefully(DType component, const std::byte* bytes, size_t count,
                  SummaryState& state) {
  double x[kBlockElements] = {};
  ToDouble(component, bytes, count, x);
  const double largest = TakeOrder(x, count, state);
  if (largest == 0) return;

  const bool large = largest > kLargeMagnitude;
  const bool small = largest < kSmallMagnitude;
  if (large) {
    for (double& e : x) e *= kScaleDown;
  }
  const int64_t exponent = large ? kScaleExponent : 0;
  double lanes[kFoldLanes];
  SumBlock(x, lanes);
  state.sum.Add(lanes, exponent);
  for (double& e : x) e = std::fabs(e);
  SumBlock(x, lanes);
  state.l1.Add(lanes, exponent);
  for (double& e : x) {
    if (small) e *= kScaleUp;
    e *= e;
  }
  SumBlock(x, lanes);
  state.squares.Add(lanes, small ? -2 * kScaleExponent : 2 * exponent);
}

Summary ToSummary(const SummaryState& state) {
  // Sums of squares outside 2^-960 to 2^960 get an exponent, so that 2^60 of
  // them can be merged before the result leaves the range of a double.
  constexpr int64_t kPlainExponentMax = 960;
  Summary out;
  out.count = state.count;
  out.nan_count = state.nan_count;
  out.positive_infinity_count = state.positive_infinity_count;
  out.negative_infinity_count = state.negative_infinity_count;
  out.zero_count = state.zero_count;
  // CPUs differ in which of -0 and +0 is the lesser, so both become +0.
  out.min = state.min + 0.0;
  out.max = state.max + 0.0;
  out.sum = state.sum.Value() + 0.0;
  out.l1 = state.l1.Value();

  const double squares = state.squares.Mantissa();
  if (squares == 0) return out;
  const int64_t magnitude = std::ilogb(squares) + state.squares.exponent;
  if (magnitude > kPlainExponentMax) {
    out.sum_squares_exponent = 2 * kScaleExponent;
  } else if (magnitude < -kPlainExponentMax) {
    out.sum_squares_exponent = -2 * kScaleExponent;
  }
  out.sum_squares =
      Scale(squares, state.squares.exponent - out.sum_squares_exponent);
  return out;
}

}  // namespace msitd::compute
