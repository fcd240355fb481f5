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

// Relative error of norms and means, in summaries and in measured metrics. Sums
// are rounded, partly in float32.
constexpr double kSumError = 1e-5;
// Relative error of extremes. Integers can have more digits than a double.
constexpr double kExtremeError = 0x1p-48;

double CountDifference(uint64_t a, uint64_t b) {
  return static_cast<double>(std::max(a, b) - std::min(a, b));
}

bool IsFinite(const Summary& summary) {
  return summary.finite_count() == summary.count;
}

// Returns a lower bound of |a - b| for numbers with an error of kExtremeError.
double Difference(double a, double b) {
  const double error = kExtremeError * (std::fabs(a) + std::fabs(b));
  const double difference = std::fabs(a - b) - error;
  return std::isfinite(difference) ? std::max(difference, 0.0) : 0;
}

// Returns a lower bound of max_abs. All elements must be finite.
double LeastMaxAbs(const Summary& target, const Summary& golden) {
  return std::max(Difference(target.min, golden.min),
                  Difference(target.max, golden.max));
}

// Returns a lower bound of the norm |t - g|. It is at least the difference of
// both norms, and at least the difference of any element.
double LeastDistance(const Summary& target, const Summary& golden) {
  const double a = target.l2_norm();
  const double b = golden.l2_norm();
  const double distance = std::fabs(a - b) - kSumError * (a + b);
  const double max_abs = LeastMaxAbs(target, golden);
  return (1 - kSumError) *
         (std::isfinite(distance) ? std::max(distance, max_abs) : max_abs);
}

// Sets a lower bound. A bound of 0 proves nothing and is omitted.
void Put(double value, std::optional<double>& out) {
  if (value > 0) out = value;
}

// Sets the bounds of the metrics that depend on rtol and atol.
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
      // The nl2 of the worst row is at least that of the whole tensor.
      Put(nl2, at(Metric::kRowNl2Max));
    }
    if (golden.abs_max() > 0) {
      Put(max_abs / golden.abs_max(), at(Metric::kMaxRel));
    }
    out = ToRowMetrics(pair, golden);
    // psnr_db decreases as the difference grows, so this is not a lower bound.
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
