// SPDX-License-Identifier: Apache-2.0
#include "protos/base/summary.h"

#include <algorithm>
#include <cmath>

namespace msitd {

double Summary::abs_max() const {
  return has_extremes() ? std::max(std::fabs(min), std::fabs(max)) : 0;
}

double Summary::mean() const {
  return finite_count() == 0 ? 0 : sum / static_cast<double>(finite_count());
}

double Summary::l2_norm() const {
  // An odd exponent leaves a factor of two under the root.
  const int64_t half = sum_squares_exponent / 2;
  const int64_t rest = sum_squares_exponent - 2 * half;
  return std::ldexp(std::sqrt(std::ldexp(sum_squares, static_cast<int>(rest))),
                    static_cast<int>(half));
}

Summary Merge(const Summary& a, const Summary& b) {
  Summary out;
  out.count = a.count + b.count;
  out.nan_count = a.nan_count + b.nan_count;
  out.positive_infinity_count =
      a.positive_infinity_count + b.positive_infinity_count;
  out.negative_infinity_count =
      a.negative_infinity_count + b.negative_infinity_count;
  out.zero_count = a.zero_count + b.zero_count;
  out.min = std::min(a.min, b.min);
  out.max = std::max(a.max, b.max);
  out.sum = a.sum + b.sum;
  out.l1 = a.l1 + b.l1;
  if (a.sum_squares_exponent == b.sum_squares_exponent) {
    out.sum_squares = a.sum_squares + b.sum_squares;
    out.sum_squares_exponent = a.sum_squares_exponent;
    return out;
  }
  const bool a_has = a.sum_squares != 0;
  const bool b_has = b.sum_squares != 0;
  if (!a_has || !b_has) {
    const Summary& only = a_has ? a : b;
    out.sum_squares = only.sum_squares;
    out.sum_squares_exponent = only.sum_squares_exponent;
    return out;
  }
  // Scale to the larger exponent: what vanishes there is below one rounding.
  out.sum_squares_exponent =
      std::max(a.sum_squares_exponent, b.sum_squares_exponent);
  const auto scaled = [&out](const Summary& side) {
    return std::ldexp(
        side.sum_squares,
        static_cast<int>(side.sum_squares_exponent - out.sum_squares_exponent));
  };
  out.sum_squares = scaled(a) + scaled(b);
  return out;
}

}  // namespace msitd
