// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/few_elements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::compare::explain {
namespace {

constexpr double kErrorMax = 2e-6;
constexpr int kDigitsMin = 24;

bool IsNear(double x, double exact) {
  return std::fabs(x - exact) <= kErrorMax * exact;
}

// Returns the usual factor, at least 1, that a number is; 0 if there is none.
double UsualFactorOf(double x) {
  constexpr double kIntegerMax = 1024;
  constexpr double kPowerMax = 1 << 24;
  constexpr double kRatioMax = 16;
  if (const double integer = std::round(x);
      integer <= kIntegerMax && IsNear(x, integer)) {
    return integer;
  }
  if (const double power = std::exp2(std::round(std::log2(x)));
      power <= kPowerMax && IsNear(x, power)) {
    return power;
  }
  for (const double divisor : {2.0, 3.0, 4.0}) {
    const double ratio = std::round(x * divisor) / divisor;
    if (ratio <= kRatioMax && IsNear(x, ratio)) return ratio;
  }
  return 0;
}

bool AreWhole(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double x) { return x == std::nearbyint(x); });
}

// Tests whether integers are in another order.
std::optional<Explanation> ExplainOrder(const ExaminedOp& op) {
  const std::vector<double>& golden = op.golden.values;
  const std::vector<double>& target = op.target.values;
  std::vector<size_t> order;
  for (size_t i = 0; i < target.size(); ++i) {
    const auto at = std::find(golden.begin(), golden.end(), target[i]);
    if (at == golden.end()) return std::nullopt;
    order.push_back(static_cast<size_t>(at - golden.begin()));
  }
  const std::set<size_t> used(order.begin(), order.end());
  if (used.size() != golden.size() || golden == target) return std::nullopt;
  Explanation out;
  out.kind = Kind::kOrder;
  out.text =
      fmt::format("the elements in another order: {}", fmt::join(order, ","));
  out.residual_without = 1;
  return out;
}

}  // namespace

std::optional<Explanation> ExplainFew(const ExaminedOp& op) {
  if (InfoOf(op.dtype).digits == 0 && op.dtype != DType::kBool &&
      op.golden.values.size() == op.target.values.size()) {
    return ExplainOrder(op);
  }
  if (InfoOf(op.dtype).digits < kDigitsMin || op.golden.values.empty() ||
      op.golden.values.size() != op.target.values.size() ||
      (AreWhole(op.golden.values) && AreWhole(op.target.values))) {
    return std::nullopt;
  }
  double gg = 0;
  double gt = 0;
  double tt = 0;
  for (size_t i = 0; i < op.golden.values.size(); ++i) {
    const double g = op.golden.values[i];
    const double t = op.target.values[i];
    gg += g * g;
    gt += g * t;
    tt += t * t;
  }
  if (!(gg > 0) || !(tt > 0) || !std::isfinite(gg) || !std::isfinite(tt)) {
    return std::nullopt;
  }
  const double factor = gt / gg;
  const double size = std::fabs(factor);
  const bool is_smaller = size < 1;
  double usual = UsualFactorOf(is_smaller ? 1 / size : size);
  if (usual == 0) return std::nullopt;
  usual = std::copysign(is_smaller ? 1 / usual : usual, factor);
  if (usual == 1) return std::nullopt;
  double squares = 0;
  double without = 0;
  for (size_t i = 0; i < op.golden.values.size(); ++i) {
    const double g = op.golden.values[i];
    const double t = op.target.values[i];
    squares += (t - usual * g) * (t - usual * g);
    without += (t - g) * (t - g);
  }
  Explanation out;
  out.kind = usual == -1 ? Kind::kSign : Kind::kFactor;
  out.text = usual == -1 ? "golden with the opposite sign"
                         : fmt::format("golden * {:.6g}", usual);
  if (usual != -1) out.parameters = {usual};
  out.residual = std::sqrt(squares / tt);
  out.residual_without = std::sqrt(without / gg);
  out.noise = op.noise;
  if (!(out.residual <= 2 * kErrorMax)) return std::nullopt;
  return out;
}

}  // namespace msitd::compare::explain
