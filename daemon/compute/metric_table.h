// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/pair_metrics.h"

// The one table of the metrics of a pair. Predicates, rows and Capabilities
// read it; reports and clients read Capabilities. docs/metrics.md says what
// each metric measures.
namespace msitd::compute {

enum class MetricFamily {
  kFused,    // A Metric: from the one pass that every pair takes.
  kDerived,  // Computed from other metrics and from summaries.
  kElement,  // An ElementMetric: from a pass of its own, if asked for.
};

struct MetricInfo {
  std::string_view name;  // As predicates and reports spell it.
  bool higher_is_better;
  // The unit, such as `elements` or `ulp`; `value` is the unit of the elements
  // themselves. Empty for a ratio; where higher is better, a ratio of 1 is the
  // best.
  std::string_view unit;
  MetricFamily family;
  uint32_t set;  // A bit of MetricSet; 0 for a metric that is always there.
  // True if a table of rows shows the metric by default.
  bool in_default_columns;
  // True if it compares how several elements relate to one another. Of one
  // element it is the same whatever that is, so that statistics tell nothing of
  // it.
  bool is_of_many_elements = false;
};

// `scaled_max_abs` and `psnr_db`.
inline constexpr int kDerivedMetricCount = 2;

// The metrics in the order of reports: those of Metric, the derived ones, those
// of ElementMetric. Lives as long as the process.
std::span<const MetricInfo> MetricTable();

}  // namespace msitd::compute
