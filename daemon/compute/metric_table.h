// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/pair_metrics.h"

// All that is to be known of the metrics of a pair, in one place: predicates,
// rows, Capabilities and through them reports and clients take it from here.
// docs/metrics.md has what each of them measures.
namespace msitd::compute {

enum class MetricFamily {
  kFused,    // A Metric: in the one pass that every pair takes.
  kDerived,  // From what others and summaries are made of.
  kElement,  // An ElementMetric: in passes of its own, if asked for.
};

struct MetricInfo {
  std::string_view name;  // As predicates and reports spell it.
  bool higher_is_better;
  // What it is a number of: `elements`, `ulp`; `value` is whatever the elements
  // are in. Empty for a ratio; one that is better the higher has 1 at best.
  std::string_view unit;
  MetricFamily family;
  uint32_t set;  // Of MetricSet; 0 for one that is always there.
  // A table of rows has it unless told otherwise.
  bool in_default_columns;
};

// `scaled_max_abs` and `psnr_db`.
inline constexpr int kDerivedMetricCount = 2;

// The metrics in the order of reports: those of Metric, the derived ones, those
// of ElementMetric. Lives as long as the process.
std::span<const MetricInfo> MetricTable();

}  // namespace msitd::compute
