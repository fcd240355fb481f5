// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/stored_tolerance.h"

#include <optional>

#include "daemon/compute/pair_metrics.h"
#include "protos/base/dtype.h"

namespace msitd::compare {
namespace {

using compute::ElementMetric;
using compute::Metric;

// max_abs may be rounded to float32, unlike the differences of elements.
constexpr double kMaxAbsError = 1e-6;

// Uses the metrics that were computed with the tolerance of the row.
StoredTolerance ByStored(const v1::ComparisonRow& row,
                         const compute::ElementRequest& request,
                         const RowMetrics& metrics) {
  const auto count = metrics[kOutlierCount];
  const auto atol_needed = metrics[IndexOf(ElementMetric::kAtolNeeded)];
  const auto rtol_needed = metrics[IndexOf(ElementMetric::kRtolNeeded)];
  if (request.rtol == row.rtol() && atol_needed.has_value()) {
    return request.atol >= *atol_needed ? StoredTolerance::kKept
                                        : StoredTolerance::kExceeded;
  }
  if (request.atol == row.atol() && rtol_needed.has_value()) {
    return request.rtol >= *rtol_needed ? StoredTolerance::kKept
                                        : StoredTolerance::kExceeded;
  }
  if (!count.has_value()) return StoredTolerance::kUnknown;
  const bool is_looser =
      request.rtol >= row.rtol() && request.atol >= row.atol();
  const bool is_tighter =
      request.rtol <= row.rtol() && request.atol <= row.atol();
  if (*count == 0 && is_looser) return StoredTolerance::kKept;
  if (*count > 0 && is_tighter) return StoredTolerance::kExceeded;
  return StoredTolerance::kUnknown;
}

// Uses the largest difference of all elements.
StoredTolerance ByMaxAbs(const v1::ComparisonRow& row,
                         const compute::ElementRequest& request,
                         const RowMetrics& metrics) {
  const auto value = [&metrics](Metric metric) {
    return metrics[static_cast<size_t>(metric)];
  };
  const bool is_complex = IsComplex(static_cast<DType>(row.golden().dtype())) ||
                          IsComplex(static_cast<DType>(row.target().dtype()));
  const auto max_abs = value(Metric::kMaxAbs);
  // With `either`, elements that are not finite always exceed the tolerance.
  if (is_complex || request.either || !max_abs.has_value() ||
      value(Metric::kNanMismatchCount) != 0 ||
      value(Metric::kInfMismatchCount) != 0) {
    return StoredTolerance::kUnknown;
  }
  return *max_abs * (1 + kMaxAbsError) <= request.atol
             ? StoredTolerance::kKept
             : StoredTolerance::kUnknown;
}

}  // namespace

StoredTolerance JudgeTolerance(const v1::ComparisonRow& row,
                               const compute::ElementRequest& request,
                               RowMetrics& metrics) {
  const bool is_stored =
      row.has_rtol() &&
      row.judge_basis().has_either_tolerance() == request.either;
  if (is_stored && row.rtol() == request.rtol && row.atol() == request.atol) {
    return StoredTolerance::kSame;
  }
  StoredTolerance out = StoredTolerance::kUnknown;
  if (is_stored) out = ByStored(row, request, metrics);
  if (out == StoredTolerance::kUnknown) out = ByMaxAbs(row, request, metrics);
  for (const ElementMetric metric :
       {ElementMetric::kOutlierCount, ElementMetric::kAtolNeeded,
        ElementMetric::kRtolNeeded}) {
    metrics[IndexOf(metric)].reset();
  }
  if (out == StoredTolerance::kKept) metrics[kOutlierCount] = 0;
  return out;
}

}  // namespace msitd::compare
