// SPDX-License-Identifier: Apache-2.0
#include "protos/base/summary.h"

#include <algorithm>
#include <cmath>

namespace msitd {
namespace {

void AddSquares(const Summary& a, const Summary& b, Summary& out) {
  const bool same_scale = a.sum_squares_exponent == b.sum_squares_exponent;
  if (!same_scale && (a.sum_squares == 0 || b.sum_squares == 0)) {
    const Summary& only = a.sum_squares != 0 ? a : b;
    out.sum_squares = only.sum_squares;
    out.sum_squares_exponent = only.sum_squares_exponent;
    return;
  }
  // Scaled to the larger exponent: whatever vanishes there is smaller than one
  // rounding.
  int64_t exponent = std::max(a.sum_squares_exponent, b.sum_squares_exponent);
  const auto sum_at = [&a, &b](int64_t scale) {
    const auto scaled = [scale](const Summary& side) {
      return std::ldexp(side.sum_squares,
                        static_cast<int>(side.sum_squares_exponent - scale));
    };
    return scaled(a) + scaled(b);
  };
  out.sum_squares = sum_at(exponent);
  if (std::isinf(out.sum_squares)) {
    // Two finite sums overflow by less than one bit; even steps keep the root
    // exact.
    exponent += 2;
    out.sum_squares = sum_at(exponent);
  }
  out.sum_squares_exponent = exponent;
}

}  // namespace

double Summary::abs_max() const {
  return has_extremes() ? std::max(std::fabs(min), std::fabs(max)) : 0;
}

double Summary::mean() const {
  return finite_count() == 0 ? 0 : sum / static_cast<double>(finite_count());
}

double Summary::l2_norm() const {
  // With an odd exponent, a factor of two stays under the root.
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
  AddSquares(a, b, out);
  return out;
}

std::string HashText(const ContentHash& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[i] = kDigits[hash.high >> (60 - 4 * i) & 15];
    out[16 + i] = kDigits[hash.low >> (60 - 4 * i) & 15];
  }
  return out;
}

}  // namespace msitd
