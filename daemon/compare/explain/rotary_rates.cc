// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"
#include "daemon/compare/explain/rotation.h"

// The frequencies of rotary embeddings, base^(-2 i / width), or their inverses,
// as models compute them before they multiply them by positions.
namespace msitd::compare::explain {
namespace {

constexpr size_t kRatesMax = 512;

// A row of frequencies, or of their inverses.
struct Rates {
  Frequencies frequencies;
  bool is_inverse = false;

  double Of(size_t i, size_t width) const {
    const double rate = frequencies.Of(i, width);
    return is_inverse ? 1 / rate : rate;
  }
};

// Returns the rates that a row has; nullopt if these are not the powers of a
// base. All of them must be exact.
std::optional<Rates> RatesOf(std::span<const double> row, double limit) {
  for (const double x : row) {
    if (!(x > 0) || !std::isfinite(x)) return std::nullopt;
  }
  Rates out;
  out.is_inverse = row.back() > row.front();
  std::vector<double> frequencies(row.begin(), row.end());
  if (out.is_inverse) {
    for (double& x : frequencies) x = 1 / x;
  }
  const size_t width = 2 * row.size();
  const auto fit = FitFrequencies(frequencies, width);
  if (!fit.has_value() || !(fit->base > 1)) return std::nullopt;
  out.frequencies = *fit;
  for (size_t i = 0; i < row.size(); ++i) {
    const double error = std::fabs(out.Of(i, width) / row[i] - 1);
    if (!(error <= limit)) return std::nullopt;
  }
  return out;
}

}  // namespace

void TestRotaryRates(Examination& pair) {
  const Slices rows = RowsOf(pair.shape());
  if (!pair.is_finite() || rows.count != 1 || rows.inner > kRatesMax) return;
  // The errors of powers grow with the exponent.
  constexpr double kPowerErrors = 4;
  const double limit = kPowerErrors * pair.limit();
  const auto golden = RatesOf(pair.golden(), limit);
  const auto target = RatesOf(pair.target(), limit);
  if (!golden.has_value() || !target.has_value() ||
      golden->is_inverse != target->is_inverse) {
    return;
  }
  constexpr double kFirstError = 1e-3;
  if (std::fabs(golden->frequencies.scale - 1) > kFirstError) return;
  const double scale = target->frequencies.scale;
  const double golden_base = RoundedBase(golden->frequencies.base);
  const double base = RoundedBase(target->frequencies.base);
  const bool has_scale = std::fabs(scale - 1) > kFirstError;
  const bool has_base = std::fabs(base / golden_base - 1) > kFirstError;
  if (has_scale == has_base) return;
  const size_t width = 2 * rows.inner;
  pair.Offer(
      {Kind::kRopeBase,
       has_scale
           ? fmt::format("rotary frequencies * {:.4g}", scale)
           : fmt::format("rotary frequencies of base {:.6g} in place of {:.6g}",
                         base, golden_base),
       {golden_base, has_scale ? golden_base : base},
       1,
       0,
       pair.ResidualOf([&](size_t i) { return target->Of(i, width); })});
}

}  // namespace msitd::compare::explain
