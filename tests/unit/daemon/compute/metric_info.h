// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daemon/compute/metric_table.h"

namespace msitd::compute {

// Returns the row of a metric in MetricTable.
inline const MetricInfo& InfoOf(Metric metric) {
  return MetricTable()[static_cast<size_t>(metric)];
}

inline const MetricInfo& InfoOf(ElementMetric metric) {
  return MetricTable()[kMetricCount + kDerivedMetricCount +
                       static_cast<size_t>(metric)];
}

}  // namespace msitd::compute
