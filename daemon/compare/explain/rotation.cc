// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/rotation.h"

#include <cmath>

namespace msitd::compare::explain {

RotationGrid::RotationGrid(std::span<const int64_t> shape, size_t positions_dim,
                           RopePairs pairs)
    : pairs_(pairs),
      slices_(SlicesOf(shape, positions_dim)),
      width_(static_cast<size_t>(shape.back())) {}

std::vector<std::complex<double>> RotationGrid::Rotations(
    std::span<const double> from, std::span<const double> to) const {
  std::vector<std::complex<double>> out(cell_count());
  ForEachPair(from.size(), [&](size_t cell, size_t i, size_t j) {
    // Written out, because the product of complex numbers checks for NaN.
    out[cell] += std::complex<double>(to[i] * from[i] + to[j] * from[j],
                                      to[j] * from[i] - to[i] * from[j]);
  });
  for (std::complex<double>& rotation : out) {
    const double length = std::abs(rotation);
    rotation = length > 0 && std::isfinite(length) ? rotation / length : 0;
  }
  return out;
}

double Frequencies::Of(size_t pair, size_t width) const {
  return scale * std::pow(base, -2 * static_cast<double>(pair) /
                                    static_cast<double>(width));
}

std::optional<Frequencies> FitFrequencies(std::span<const double> frequencies,
                                          size_t width) {
  double count = 0;
  double x = 0;
  double y = 0;
  double xx = 0;
  double xy = 0;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    if (!(frequencies[i] > 0) || !std::isfinite(frequencies[i])) continue;
    const double at = -2 * static_cast<double>(i) / static_cast<double>(width);
    const double value = std::log(frequencies[i]);
    // Small frequencies are known less exactly.
    const double weight = frequencies[i];
    count += weight;
    x += weight * at;
    y += weight * value;
    xx += weight * at * at;
    xy += weight * at * value;
  }
  const double variance = xx * count - x * x;
  if (!(variance > 1e-12 * count * count)) return std::nullopt;
  const double slope = (xy * count - x * y) / variance;
  return Frequencies{std::exp(slope), std::exp((y - slope * x) / count)};
}

double RoundedBase(double base) {
  if (!(base > 1) || !std::isfinite(base)) return base;
  // Bases in use have two significant digits.
  const double unit = std::pow(10, std::floor(std::log10(base)) - 1);
  const double rounded = std::round(base / unit) * unit;
  constexpr double kRelativeError = 0.03;
  return std::fabs(rounded - base) <= kRelativeError * base ? rounded : base;
}

}  // namespace msitd::compare::explain
