// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/summary_bounds.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "daemon/compute/pair_metrics.h"

namespace msitd::compare {
namespace {

using compute::ElementMetric;
using compute::Metric;

// Relative error of norms and means, both of summaries and as measured: sums
// are rounded, partly in float32.
constexpr double kSumError = 1e-5;
// Relative error of extremes: integers may have more digits than a double.
constexpr double kExtremeError = 0x1p-48;

double CountDifference(uint64_t a, uint64_t b) {
  return static_cast<double>(std::max(a, b) - std::min(a, b));
}

bool IsFinite(const Summary& summary) {
  return summary.finite_count() == summary.count;
}

double Difference(double a, double b) {
  const double error = kExtremeError * (std::fabs(a) + std::fabs(b));
  const double difference = std::fabs(a - b) - error;
  return std::isfinite(difference) ? std::max(difference, 0.0) : 0;
}

// All elements are finite.
double LeastMaxAbs(const Summary& target, const Summary& golden) {
  return std::max(Difference(target.min, golden.min),
                  Difference(target.max, golden.max));
}

// |t - g| is no smaller than the difference of the norms, or of one element.
double LeastDistance(const Summary& target, const Summary& golden) {
  const double a = target.l2_norm();
  const double b = golden.l2_norm();
  const double distance = std::fabs(a - b) - kSumError * (a + b);
  const double max_abs = LeastMaxAbs(target, golden);
  return (1 - kSumError) *
         (std::isfinite(distance) ? std::max(distance, max_abs) : max_abs);
}

// A bound of 0 proves nothing and is left out.
void Put(double value, std::optional<double>& out) {
  if (value > 0) out = value;
}

void PutTolerances(double max_abs, double mismatch_count, const Summary& golden,
                   const compute::ElementRequest& request, RowMetrics& out) {
  if ((request.sets & compute::kToleranceSet) == 0) return;
  const auto at = [&out](ElementMetric metric) -> std::optional<double>& {
    return out[kFirstElementMetric + static_cast<int>(metric)];
  };
  const double allowed = request.atol + request.rtol * golden.abs_max();
  Put(std::max(mismatch_count, max_abs > allowed ? 1.0 : 0.0),
      at(ElementMetric::kOutlierCount));
  if (max_abs <= allowed) return;
  Put(max_abs - request.rtol * golden.abs_max(),
      at(ElementMetric::kAtolNeeded));
  if (golden.abs_max() > 0) {
    Put((max_abs - request.atol) / golden.abs_max(),
        at(ElementMetric::kRtolNeeded));
  }
}

}  // namespace

RowMetrics LeastMetrics(const Summary& target, const Summary& golden,
                        const compute::ElementRequest& request) {
  RowMetrics out;
  if (target.count != golden.count || golden.count == 0) return out;
  const auto count = static_cast<double>(golden.count);
  const double nan_count = CountDifference(target.nan_count, golden.nan_count);
  const double inf_count =
      std::max(CountDifference(target.positive_infinity_count,
                               golden.positive_infinity_count),
               CountDifference(target.negative_infinity_count,
                               golden.negative_infinity_count));
  double max_abs = 0;
  if (IsFinite(target) && IsFinite(golden)) {
    max_abs = LeastMaxAbs(target, golden);
    const double distance = LeastDistance(target, golden);
    compute::PairMetrics pair;
    const auto at = [&pair](Metric metric) -> std::optional<double>& {
      return pair.values[static_cast<int>(metric)];
    };
    Put(max_abs, at(Metric::kMaxAbs));
    Put((1 - kSumError) * max_abs / count, at(Metric::kMeanAbs));
    Put(distance, at(Metric::kL2Distance));
    Put(distance / std::sqrt(count), at(Metric::kRmse));
    if (distance > 0) {
      const double nl2 = distance / golden.l2_norm();
      Put(nl2, at(Metric::kNl2));
      // The worst row is no better than the whole.
      Put(nl2, at(Metric::kRowNl2Max));
    }
    if (golden.abs_max() > 0) {
      Put(max_abs / golden.abs_max(), at(Metric::kMaxRel));
    }
    out = ToRowMetrics(pair, golden);
    // No lower bound: psnr_db falls as the difference grows.
    out[kPsnrDb].reset();
  }
  Put(nan_count, out[static_cast<int>(Metric::kNanMismatchCount)]);
  Put(inf_count, out[static_cast<int>(Metric::kInfMismatchCount)]);
  Put(std::max({nan_count, inf_count, max_abs > 0 ? 1.0 : 0.0,
                CountDifference(target.zero_count, golden.zero_count)}),
      out[static_cast<int>(Metric::kMismatchCount)]);
  PutTolerances(max_abs, std::max(nan_count, inf_count), golden, request, out);
  return out;
}

std::optional<RowMetrics> ProveFailure(const TensorPair& pair,
                                       const Verification& verification) {
  if (!pair.golden->knows_summary || !pair.target->knows_summary) {
    return std::nullopt;
  }
  const RowMetrics least = LeastMetrics(
      pair.target->summary, pair.golden->summary, verification.request);
  if (!verification.predicate->CannotHold(least)) return std::nullopt;
  return least;
}

}  // namespace msitd::compare
