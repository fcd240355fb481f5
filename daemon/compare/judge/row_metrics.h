// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "daemon/compute/element_metrics.h"
#include "daemon/compute/metric_table.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/summary.h"

// The metrics that a row shows and that the predicates of a policy can name:
// those of the pair, and those derived from them and from summaries.
namespace msitd::compare {

// Index of `scaled_max_abs`: max |t - g| divided by the largest finite |g|.
inline constexpr int kScaledMaxAbs = compute::kMetricCount;
// Index of `psnr_db`: 20 log10((max g - min g) / rmse).
inline constexpr int kPsnrDb = kScaledMaxAbs + 1;
// Index of the first element metric. The others follow in the order of
// compute::ElementMetric.
inline constexpr int kFirstElementMetric =
    compute::kMetricCount + compute::kDerivedMetricCount;
inline constexpr int kRowMetricCount =
    kFirstElementMetric + compute::kElementMetricCount;

// Returns the index of an element metric.
constexpr int IndexOf(compute::ElementMetric metric) {
  return kFirstElementMetric + static_cast<int>(metric);
}
// Index of `outlier_count`.
inline constexpr int kOutlierCount =
    IndexOf(compute::ElementMetric::kOutlierCount);

// One value for each of MetricNames, in that order. Undefined metrics are
// absent.
using RowMetrics = std::array<std::optional<double>, kRowMetricCount>;

// Returns the names of all metrics, in the order of reports. They are valid as
// long as the process.
std::span<const std::string_view> MetricNames();

// Returns the metric set of the metric with this index; 0 if it is always
// computed.
uint32_t SetOf(int metric);

// Returns the metrics that one pass over a pair measures, and those derived
// from them and from `golden`, the summary of the golden tensor.
//
// scaled_max_abs is 0 if nothing differs, and +Inf if the golden tensor is zero
// and the target is not. If the golden tensor has infinities, its divisor is a
// lower bound of the largest finite magnitude, so the metric is never too
// small. psnr_db is then absent.
RowMetrics ToRowMetrics(const compute::PairMetrics& pair,
                        const Summary& golden);

// Adds the element metrics. Those that were not requested remain absent.
void AddElementMetrics(const compute::ElementMetrics& elements,
                       RowMetrics& out);

}  // namespace msitd::compare
