// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "daemon/compute/pair_metrics.h"
#include "protos/base/summary.h"

// The numbers that a row shows and that a predicate of a policy may name: the
// metrics of the pair, and what follows from them and the summaries.
namespace msitd::compare {

// `scaled_max_abs`: max |t - g| divided by the largest finite |g|.
inline constexpr int kScaledMaxAbs = compute::kMetricCount;
inline constexpr int kRowMetricCount = compute::kMetricCount + 1;

// In the order of MetricNames.
using RowMetrics = std::array<std::optional<double>, kRowMetricCount>;

// Returns the names in the order of reports; they live as long as the process.
std::span<const std::string_view> MetricNames();

// Returns all metrics of a pair of which `golden` is the summary of the golden
// side. The divisor of scaled_max_abs is exact unless the golden tensor has
// infinities; then it is a lower bound of the largest finite magnitude, so the
// metric is never too small. It is 0 if nothing differs, and +Inf if the
// golden side is zero and the target is not.
RowMetrics ToRowMetrics(const compute::PairMetrics& pair,
                        const Summary& golden);

}  // namespace msitd::compare
