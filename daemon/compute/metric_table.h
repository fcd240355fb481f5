// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/pair_metrics.h"

// The table of all metrics of a pair. Predicates, rows and Capabilities use it;
// reports and clients use Capabilities. docs/metrics.md describes what each
// metric measures.
namespace msitd::compute {

enum class MetricFamily {
  kFused,    // A Metric, computed in the pass that is made for every pair.
  kDerived,  // Computed from other metrics and summaries.
  kElement,  // An ElementMetric, computed on request in an additional pass.
};

struct MetricInfo {
  std::string_view name;  // As in predicates and reports.
  bool higher_is_better;
  // The unit, such as `elements` or `ulp`. `value` is the unit of the elements
  // themselves. Empty for ratios. The best ratio is 1 if a higher value is
  // better.
  std::string_view unit;
  MetricFamily family;
  uint32_t set;  // A bit of MetricSet; 0 for a metric that is always computed.
  // True if a table of rows shows the metric by default.
  bool in_default_columns;
  // True if the metric compares how several elements relate to each other, as a
  // correlation does. For a single element, its value does not depend on the
  // element, so it is meaningless for statistics.
  bool is_of_many_elements = false;
};

// `scaled_max_abs` and `psnr_db`.
inline constexpr int kDerivedMetricCount = 2;

// Returns the metrics in the order of reports: those of Metric, the derived
// ones, then those of ElementMetric. They live as long as the process.
std::span<const MetricInfo> MetricTable();

}  // namespace msitd::compute
