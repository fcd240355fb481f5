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

// The numbers that a row shows and that a predicate of a policy may name: the
// metrics of the pair, and those derived from them and the summaries.
namespace msitd::compare {

// `scaled_max_abs`: max |t - g| divided by the largest finite |g|.
inline constexpr int kScaledMaxAbs = compute::kMetricCount;
// `psnr_db`: 20 log10((max g - min g) / rmse).
inline constexpr int kPsnrDb = kScaledMaxAbs + 1;
// The element metrics, in their order.
inline constexpr int kFirstElementMetric =
    compute::kMetricCount + compute::kDerivedMetricCount;
inline constexpr int kRowMetricCount =
    kFirstElementMetric + compute::kElementMetricCount;

// In the order of MetricNames.
using RowMetrics = std::array<std::optional<double>, kRowMetricCount>;

// Returns the names in the order of reports; they live as long as the process.
std::span<const std::string_view> MetricNames();

// The set that the metric with this index of MetricNames belongs to; 0 for one
// that is always computed.
uint32_t SetOf(int metric);

// Returns the metrics of the fused pass over a pair, and those derived from
// them and from `golden`, the summary of the golden side.
//
// The divisor of scaled_max_abs is exact unless the golden tensor has
// infinities; then it is a lower bound of the largest finite magnitude, so the
// metric is never too small. The metric is 0 if nothing differs, and +Inf if
// the golden side is zero and the target is not. psnr_db is absent if the
// golden tensor has infinities.
RowMetrics ToRowMetrics(const compute::PairMetrics& pair,
                        const Summary& golden);

// Adds the element metrics. Those that were not asked for are absent.
void AddElementMetrics(const compute::ElementMetrics& elements,
                       RowMetrics& out);

}  // namespace msitd::compare
