// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/judge/row_metrics.h"

namespace msitd::compare {

// Bounds the growth of an error from the tensors that a tensor was computed
// from to the tensor itself, and the growth of the default bounds that this
// justifies; see MeasuredDrift.
inline constexpr double kDriftGrowthMax = 2;

// Returns the metrics that the default bounds limit as for errors that are so
// many times as large. Other metrics remain as they are.
RowMetrics Scaled(const RowMetrics& metrics, double factor);

// Returns metrics that satisfy the default bounds if `metrics` satisfy
// kDriftGrowthMax times these.
RowMetrics EasedByDrift(const RowMetrics& metrics);

}  // namespace msitd::compare
