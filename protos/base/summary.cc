// SPDX-License-Identifier: Apache-2.0
#include "protos/base/summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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
  // Scaled to the larger exponent. Bits that are lost by scaling are smaller
  // than one rounding error.
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
    // The sum of two finite numbers overflows by less than one bit. An even
    // step keeps the square root exact.
    exponent += 2;
    out.sum_squares = sum_at(exponent);
  }
  out.sum_squares_exponent = exponent;
}

// Every count is at most `count`, so no sum of three overflows.
bool HasPossibleCounts(const Summary& s, DType dtype) {
  const uint64_t special =
      s.nan_count + s.positive_infinity_count + s.negative_infinity_count;
  if (std::max({s.nan_count, s.positive_infinity_count,
                s.negative_infinity_count, s.zero_count}) > s.count) {
    return false;
  }
  const DTypeKind kind = InfoOf(dtype).kind;
  const bool is_whole = kind == DTypeKind::kBool || kind == DTypeKind::kInteger;
  return special + s.zero_count <= s.count && (!is_whole || special == 0);
}

bool HasPossibleExtremes(const Summary& s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!s.has_extremes()) return s.min == kInfinity && s.max == -kInfinity;
  // NaN fails every comparison.
  if (!(s.min <= s.max)) return false;
  if ((s.min == -kInfinity) != (s.negative_infinity_count > 0)) return false;
  if ((s.max == kInfinity) != (s.positive_infinity_count > 0)) return false;
  return s.zero_count == 0 || (s.min <= 0 && s.max >= 0);
}

bool HasPossibleSums(const Summary& s) {
  // The exponent that ToSummary of protos/compute uses for a sum beyond double.
  constexpr int64_t kExponent = 1200;
  if (s.sum_squares_exponent != 0 && s.sum_squares_exponent != kExponent &&
      s.sum_squares_exponent != -kExponent) {
    return false;
  }
  const bool has_others = s.finite_count() > s.zero_count;
  if (!has_others) {
    return s.sum == 0 && s.l1 == 0 && s.sum_squares == 0 &&
           s.sum_squares_exponent == 0;
  }
  return !std::isnan(s.sum) && s.l1 > 0 && s.sum_squares > 0 &&
         std::isfinite(s.sum_squares);
}

}  // namespace

bool IsPossible(const Summary& summary, DType dtype, uint64_t bytes) {
  const uint64_t count =
      bytes / ElementBytes(dtype) * (IsComplex(dtype) ? 2 : 1);
  return summary.count == count && HasPossibleCounts(summary, dtype) &&
         HasPossibleExtremes(summary) && HasPossibleSums(summary);
}

bool HasEqualBits(const Digest& a, const Digest& b) {
  return std::memcmp(&a, &b, sizeof(Digest)) == 0;
}

double Summary::abs_max() const {
  return has_extremes() ? std::max(std::fabs(min), std::fabs(max)) : 0;
}

double Summary::mean() const {
  return finite_count() == 0 ? 0 : sum / static_cast<double>(finite_count());
}

double Summary::l2_norm() const {
  // With an odd exponent, a factor of two remains under the root.
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
