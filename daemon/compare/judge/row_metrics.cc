// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msitd::compare {
namespace {

// Returns the largest finite magnitude of a tensor. If its extremes are
// infinite, returns a lower bound that is at least the root mean square.
double Scale(const Summary& summary) {
  double scale = 0;
  // The norm of large elements can exceed the range of double.
  if (summary.finite_count() > 0 && std::isfinite(summary.l2_norm())) {
    scale = summary.l2_norm() /
            std::sqrt(static_cast<double>(summary.finite_count()));
  }
  for (const double extreme : {summary.min, summary.max}) {
    if (std::isfinite(extreme)) scale = std::max(scale, std::fabs(extreme));
  }
  return scale;
}

}  // namespace

std::span<const std::string_view> MetricNames() {
  static const auto names = [] {
    std::array<std::string_view, kRowMetricCount> out;
    const auto table = compute::MetricTable();
    std::transform(table.begin(), table.end(), out.begin(),
                   [](const compute::MetricInfo& info) { return info.name; });
    return out;
  }();
  return names;
}

uint32_t SetOf(int metric) {
  return compute::MetricTable()[static_cast<size_t>(metric)].set;
}

RowMetrics ToRowMetrics(const compute::PairMetrics& pair,
                        const Summary& golden) {
  RowMetrics out;
  std::copy(std::begin(pair.values), std::end(pair.values), out.begin());
  const std::optional<double> max_abs = pair[compute::Metric::kMaxAbs];
  // A difference that exceeds the range of double has no meaningful quotient.
  if (max_abs.has_value() && std::isfinite(*max_abs)) {
    const double scale = Scale(golden);
    if (*max_abs == 0) {
      out[kScaledMaxAbs] = 0;
    } else if (scale == 0) {
      out[kScaledMaxAbs] = std::numeric_limits<double>::infinity();
    } else {
      out[kScaledMaxAbs] = *max_abs / scale;
    }
  }
  const std::optional<double> rmse = pair[compute::Metric::kRmse];
  if (rmse.has_value() && std::isfinite(*rmse) && std::isfinite(golden.min) &&
      std::isfinite(golden.max)) {
    if (*rmse == 0) {
      out[kPsnrDb] = std::numeric_limits<double>::infinity();
    } else {
      // Uses two logarithms because the quotient and the range can exceed the
      // range of double.
      const double range = golden.max - golden.min;
      const double log_range =
          std::isfinite(range)
              ? std::log10(range)
              : std::log10(golden.max / 2 - golden.min / 2) + std::log10(2);
      out[kPsnrDb] = 20 * (log_range - std::log10(*rmse));
    }
  }
  return out;
}

void AddElementMetrics(const compute::ElementMetrics& elements,
                       RowMetrics& out) {
  std::copy(std::begin(elements.values), std::end(elements.values),
            out.begin() + kFirstElementMetric);
}

}  // namespace msitd::compare
