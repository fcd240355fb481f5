// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/pair_finish.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "daemon/compute/kernel/wide_integer.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The value mantissa * 2^exponent. The magnitude of the mantissa is 0 or in
// [0.5, 1).
struct Wide {
  double mantissa;
  int64_t exponent;
};

Wide ToWide(double mantissa, int64_t exponent) {
  int own = 0;
  mantissa = std::frexp(mantissa, &own);
  return {mantissa, mantissa == 0 ? 0 : exponent + own};
}

Wide ToWide(const LaneSum& sum) { return ToWide(sum.Mantissa(), sum.exponent); }

double SquareRoot(Wide x) {
  if (x.exponent % 2 != 0) {
    x.mantissa *= 2;
    --x.exponent;
  }
  return Scale(std::sqrt(x.mantissa), x.exponent / 2);
}

Wide Quotient(const Wide& a, const Wide& b) {
  return ToWide(a.mantissa / b.mantissa, a.exponent - b.exponent);
}

double Cosine(const PairState& state) {
  const Wide tt = ToWide(state.target_squares);
  const Wide gg = ToWide(state.golden_squares);
  if (tt.mantissa == 0 || gg.mantissa == 0) {
    return tt.mantissa == gg.mantissa ? 1 : 0;
  }
  const Wide tg = ToWide(state.products);
  Wide norms = {tt.mantissa * gg.mantissa, tt.exponent + gg.exponent};
  if (norms.exponent % 2 != 0) {
    norms.mantissa *= 2;
    --norms.exponent;
  }
  // The root of a square is exact, so equal tensors result in exactly 1.
  const double cosine = Scale(tg.mantissa / std::sqrt(norms.mantissa),
                              tg.exponent - norms.exponent / 2);
  return std::clamp(cosine, -1.0, 1.0);
}

double NormalizedL2(const Wide& noise, const Wide& signal) {
  if (noise.mantissa == 0) return 0;
  if (signal.mantissa == 0) return kInfinity;
  return SquareRoot(Quotient(noise, signal));
}

// Returns the sum of two numbers that are not negative.
Wide Sum(const Wide& a, const Wide& b) {
  const Wide& large =
      b.mantissa == 0 || (a.mantissa != 0 && a.exponent > b.exponent) ? a : b;
  const Wide& small = &large == &a ? b : a;
  return ToWide(
      large.mantissa + Scale(small.mantissa, small.exponent - large.exponent),
      large.exponent);
}

// Returns 1 - 2 sum(t g) / sum(t^2 + g^2) without its cancellation.
double Rel(const Wide& noise, const Wide& both) {
  if (noise.mantissa == 0) return 0;
  const Wide rel = Quotient(noise, both);
  return Scale(rel.mantissa, rel.exponent);
}

double SqnrDb(const Wide& noise, const Wide& signal) {
  constexpr double kDbPerNeper = 4.3429448190325182765;  // 10 / ln 10
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  if (noise.mantissa == 0) return kInfinity;
  if (signal.mantissa == 0) return -kInfinity;
  const double log_ratio =
      Log(signal.mantissa / noise.mantissa) +
      static_cast<double>(signal.exponent - noise.exponent) * kLn2;
  return kDbPerNeper * log_ratio;
}

void SetCounts(const PairState& state, PairMetrics& out) {
  const auto set = [&out](Metric metric, uint64_t count) {
    out.values[static_cast<int>(metric)] = static_cast<double>(count);
  };
  set(Metric::kMismatchCount, state.mismatch_count);
  set(Metric::kNanMismatchCount, state.nan_mismatch_count);
  set(Metric::kInfMismatchCount, state.infinity_mismatch_count);
}

void SetErrors(const PairState& state, PairMetrics& out) {
  const auto set = [&out](Metric metric, double value) {
    out.values[static_cast<int>(metric)] = value;
  };
  const auto count = static_cast<double>(state.count - state.cleared_count);
  const Wide noise = ToWide(state.difference_squares);
  const Wide signal = ToWide(state.golden_squares);
  set(Metric::kCosine, Cosine(state));
  set(Metric::kMaxAbs, state.max_difference);
  const double kl = KlDivergence(state.softmax);
  if (std::isfinite(kl)) set(Metric::kKl, kl);
  // If a difference exceeds the range of double, the remaining metrics are
  // undefined.
  if (std::isinf(state.max_difference)) return;
  set(Metric::kMeanAbs,
      Scale(state.differences.Mantissa() / count, state.differences.exponent));
  set(Metric::kMaxRel, state.max_ratio);
  set(Metric::kMeanRel, state.ratios.Mantissa() / count);
  set(Metric::kRmse,
      SquareRoot(ToWide(noise.mantissa / count, noise.exponent)));
  set(Metric::kNl2, NormalizedL2(noise, signal));
  set(Metric::kSqnrDb, SqnrDb(noise, signal));
  set(Metric::kRel, Rel(noise, Sum(ToWide(state.target_squares), signal)));
  set(Metric::kL2Distance, SquareRoot(noise));
}

}  // namespace

PairMetrics ToMetrics(const PairState& state) {
  PairMetrics out;
  SetCounts(state, out);
  if (state.count == state.cleared_count) return out;
  SetErrors(state, out);
  if (state.max_difference > 0) {
    out.max_abs_index = state.max_index;
    out.max_abs_target = state.max_target;
    out.max_abs_golden = state.max_golden;
    const auto& integers = state.max_integers;
    if (integers.has_value() && integers->index == state.max_index) {
      if (IsWide(state.target)) out.max_abs_target_integer = integers->target;
      if (IsWide(state.golden)) out.max_abs_golden_integer = integers->golden;
    }
  }
  return out;
}

}  // namespace msitd::compute
