// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/drift_bounds.h"

#include <cstddef>

namespace msitd::compare {

RowMetrics Scaled(const RowMetrics& metrics, double factor) {
  RowMetrics out = metrics;
  for (const size_t metric :
       {static_cast<size_t>(compute::Metric::kNl2),
        static_cast<size_t>(kScaledMaxAbs),
        static_cast<size_t>(compute::Metric::kRowNl2P50),
        static_cast<size_t>(compute::Metric::kChannelNl2P50)}) {
    if (out[metric].has_value()) *out[metric] *= factor;
  }
  return out;
}

RowMetrics EasedByDrift(const RowMetrics& metrics) {
  return Scaled(metrics, 1 / kDriftGrowthMax);
}

}  // namespace msitd::compare
