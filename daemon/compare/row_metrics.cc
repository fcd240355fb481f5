// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/row_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msitd::compare {
namespace {

// Largest finite magnitude of a tensor, or a lower bound of it that is not
// below the root mean square.
double Scale(const Summary& summary) {
  double scale = 0;
  if (summary.finite_count() > 0) {
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
    for (int i = 0; i < compute::kMetricCount; ++i) {
      out[i] = compute::InfoOf(static_cast<compute::Metric>(i)).name;
    }
    out[kScaledMaxAbs] = "scaled_max_abs";
    return out;
  }();
  return names;
}

RowMetrics ToRowMetrics(const compute::PairMetrics& pair,
                        const Summary& golden) {
  RowMetrics out;
  std::copy(std::begin(pair.values), std::end(pair.values), out.begin());
  const std::optional<double> max_abs = pair[compute::Metric::kMaxAbs];
  if (max_abs.has_value()) {
    const double scale = Scale(golden);
    if (*max_abs == 0) {
      out[kScaledMaxAbs] = 0;
    } else if (scale == 0) {
      out[kScaledMaxAbs] = std::numeric_limits<double>::infinity();
    } else {
      out[kScaledMaxAbs] = *max_abs / scale;
    }
  }
  return out;
}

}  // namespace msitd::compare
