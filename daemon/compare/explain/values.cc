// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"

// Mistakes that show in single values: rounding, limits and zeros.
namespace msitd::compare::explain {
namespace {

// A type that values are rounded to.
struct NarrowType {
  std::string_view name;
  int digits;        // 0 for integers.
  int exponent_min;  // Exponent of the smallest normal number.
  double largest;
};

constexpr std::array<NarrowType, 5> kNarrowTypes = {{
    {"float16", 11, -14, 65504},
    {"bfloat16", 8, -126, 3.3895313892515355e38},
    {"float8_e4m3fn", 4, -6, 448},
    {"float8_e5m2", 3, -14, 57344},
    {"int8", 0, 0, 127},
}};

// A larger noise permits any of several values.
constexpr double kRoundedNoiseMax = 1e-3;

double RoundedTo(const NarrowType& type, double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  if (type.digits == 0) return std::clamp(std::nearbyint(x), -128.0, 127.0);
  int exponent = 0;
  std::frexp(x, &exponent);
  // The unit in the last place; denormals have that of the smallest normal.
  const int unit =
      std::max(exponent - 1, type.exponent_min) - (type.digits - 1);
  const double out = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::clamp(out, -type.largest, type.largest);
}

// How the scale follows from the largest value.
enum class Scaled { kNot, kByTensor, kByRow };

void TestType(Examination& pair, const NarrowType& type, Scaled scaled,
              const std::vector<double>& row_maxima, double maximum) {
  const size_t width = RowsOf(pair.shape()).inner;
  std::vector<double> scales(row_maxima.size(), 1);
  for (size_t row = 0; row < scales.size() && scaled != Scaled::kNot; ++row) {
    const double top = scaled == Scaled::kByRow ? row_maxima[row] : maximum;
    scales[row] = top > 0 ? top / type.largest : 1;
  }
  const double limit = std::min(pair.limit(), kRoundedNoiseMax);
  pair.Offer({Kind::kRounded,
              fmt::format("golden rounded to {}{}", type.name,
                          scaled == Scaled::kNot ? ""
                          : scaled == Scaled::kByTensor
                              ? ", scaled by the largest element"
                              : ", scaled by the largest element of each row"),
              {},
              scaled == Scaled::kNot ? 0.0 : 0.5,
              0,
              pair.ResidualOf([&](size_t i) {
                const double scale = scales[i / width];
                const double x = pair.golden()[i] / scale;
                // The noise decides how a value between two others is rounded.
                const double low = RoundedTo(type, x * (1 - limit)) * scale;
                const double high = RoundedTo(type, x * (1 + limit)) * scale;
                const double t = pair.target()[i];
                return std::fabs(t - low) < std::fabs(t - high) ? low : high;
              })});
}

// The largest float of a type, if it is a known limit.
std::string NameOfLimit(double limit) {
  for (const NarrowType& type : kNarrowTypes) {
    if (std::fabs(limit - type.largest) <= 1e-3 * type.largest) {
      return fmt::format(", the largest {}", type.name);
    }
  }
  return "";
}

// Returns the share of `count` in all elements as text.
std::string ShareText(size_t count, size_t all) {
  return fmt::format(
      "{:.3g} %", 100 * static_cast<double>(count) / static_cast<double>(all));
}

void TestInfinities(Examination& pair) {
  double least = kInfinite;  // The least value that is infinite.
  double most = 0;           // The largest finite value.
  size_t count = 0;
  for (size_t i = 0; i < pair.size(); ++i) {
    const double g = pair.golden()[i];
    if (!std::isfinite(g)) continue;
    if (std::isinf(pair.target()[i])) {
      least = std::min(least, std::fabs(g));
      ++count;
    } else {
      most = std::max(most, std::fabs(g));
    }
  }
  if (count == 0 || least < most * (1 - pair.limit())) return;
  const double residual = pair.ResidualOf([&](size_t i) {
    const double g = pair.golden()[i];
    return std::fabs(g) >= least ? std::copysign(kInfinite, g) : g;
  });
  pair.Offer(
      {Kind::kSaturated,
       fmt::format("overflow: infinite from {:.4g} on{}, {} of all "
                   "elements",
                   least, NameOfLimit(least), ShareText(count, pair.size())),
       {least},
       1,
       1,
       residual});
}

void TestClamp(Examination& pair) {
  double high = -kInfinite;
  double low = kInfinite;
  double golden_high = -kInfinite;
  double golden_low = kInfinite;
  for (size_t i = 0; i < pair.size(); ++i) {
    high = std::max(high, pair.target()[i]);
    low = std::min(low, pair.target()[i]);
    golden_high = std::max(golden_high, pair.golden()[i]);
    golden_low = std::min(golden_low, pair.golden()[i]);
  }
  if (!(low < high) || (high >= golden_high && low <= golden_low)) return;
  size_t count = 0;
  const double residual = pair.ResidualOf(
      [&](size_t i) { return std::clamp(pair.golden()[i], low, high); },
      Examination::Scale::kTarget);
  for (size_t i = 0; i < pair.size(); ++i) {
    count += pair.golden()[i] > high || pair.golden()[i] < low ? 1 : 0;
  }
  // A single element that is smaller is another mistake.
  if (count < 2) return;
  const bool is_both = high < golden_high && low > golden_low;
  const double limit = high < golden_high ? high : low;
  pair.Offer({Kind::kSaturated,
              is_both ? fmt::format("golden limited to {:.4g} and {:.4g}{}",
                                    low, high, NameOfLimit(high))
                      : fmt::format("golden limited to at {} {:.4g}{}",
                                    high < golden_high ? "most" : "least",
                                    limit, NameOfLimit(std::fabs(limit))),
              {limit},
              is_both ? 2.0 : 1.5,
              is_both ? 2U : 1U,
              residual});
}

// Returns whether most of some elements, of which there are `count`, are all
// those of some indices of a dimension, which random ones are not.
bool FillsIndices(const Examination& pair,
                  const std::function<bool(size_t)>& has, size_t count) {
  for (size_t dim = 0; dim < pair.shape().size(); ++dim) {
    const Slices slices = SlicesOf(pair.shape(), dim);
    if (slices.count < 2 || slices.width() < 2) continue;
    std::vector<size_t> counts(slices.count);
    ForEachElement(slices, [&](size_t index, size_t i) {
      counts[index] += has(i) ? 1 : 0;
    });
    const auto whole = static_cast<size_t>(
        std::count(counts.begin(), counts.end(), slices.width()));
    if (whole * slices.width() * 2 > count) return true;
  }
  return false;
}

}  // namespace

void TestRounding(Examination& pair) {
  if (!pair.is_finite()) return;
  const int digits = InfoOf(pair.op().dtype).digits;
  const size_t width = RowsOf(pair.shape()).inner;
  std::vector<double> row_maxima(pair.size() / width);
  ForEachElement(RowsOf(pair.shape()), [&](size_t row, size_t i) {
    row_maxima[row] = std::max(row_maxima[row], std::fabs(pair.golden()[i]));
  });
  const double maximum =
      *std::max_element(row_maxima.begin(), row_maxima.end());
  const auto is_saturated = [&](const NarrowType& type) {
    constexpr size_t kSaturatedShare = 10;
    const auto count = static_cast<size_t>(std::count_if(
        pair.golden().begin(), pair.golden().end(),
        [&type](double x) { return std::fabs(x) > type.largest; }));
    return count * kSaturatedShare > pair.size();
  };
  for (const NarrowType& type : kNarrowTypes) {
    if (type.digits >= digits) continue;
    const bool is_wide = type.digits >= 8;
    if (type.digits > 0 && !is_saturated(type)) {
      TestType(pair, type, Scaled::kNot, row_maxima, maximum);
    }
    if (is_wide) continue;
    TestType(pair, type, Scaled::kByTensor, row_maxima, maximum);
    TestType(pair, type, Scaled::kByRow, row_maxima, maximum);
  }
}

void TestLimits(Examination& pair) {
  TestInfinities(pair);
  if (pair.is_finite()) TestClamp(pair);
}

void TestZeros(Examination& pair) {
  size_t zeros = 0;
  size_t others = 0;
  double gg = 0;
  double gt = 0;
  const auto is_lost = [&](size_t i) {
    return pair.target()[i] == 0 && pair.golden()[i] != 0;
  };
  for (size_t i = 0; i < pair.size(); ++i) {
    const double g = pair.golden()[i];
    const double t = pair.target()[i];
    if (is_lost(i)) {
      ++zeros;
    } else if (std::isfinite(g) && std::isfinite(t)) {
      others += g != 0 ? 1 : 0;
      gg += g * g;
      gt += g * t;
    }
  }
  // Zeros everywhere, except that elements that a mask closes are zero in both.
  const bool is_all = others == 0;
  if ((is_all ? zeros : others) < kExaminedElementsMin || zeros == 0) return;
  const auto golden = pair.golden();
  const std::string share = ShareText(zeros, pair.size());
  const double of_all =
      static_cast<double>(zeros) / static_cast<double>(pair.size());
  pair.Offer(
      {Kind::kZeros,
       zeros == pair.size()
           ? "zeros in place of all elements"
           : fmt::format("zeros in place of {} of all elements", share),
       {of_all},
       is_all ? 0.5 : 1.5,
       0,
       pair.ResidualOf([&](size_t i) { return is_lost(i) ? 0 : golden[i]; })});
  if (is_all) return;
  const double factor = gg > 0 ? gt / gg : 1;
  const double lost =
      static_cast<double>(zeros) / static_cast<double>(zeros + others);
  // The factor makes up for the zeros on average.
  const double expected = 1 / (1 - lost);
  constexpr double kDeviations = 4;
  const double error =
      kDeviations * expected *
      std::sqrt(lost / (1 - lost) / static_cast<double>(zeros + others));
  if (std::fabs(factor - expected) > error || factor < 1 + error / 2 ||
      FillsIndices(pair, is_lost, zeros)) {
    return;
  }
  pair.Offer({Kind::kDropout,
              fmt::format("dropout: {} of all elements are zero, the others "
                          "are * {:.4g}",
                          share, factor),
              {of_all},
              2,
              1,
              pair.ResidualOf([&](size_t i) {
                return is_lost(i) ? 0 : factor * golden[i];
              })});
}

}  // namespace msitd::compare::explain
