// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compute/element_metrics.h"
#include "protos/base/summary.h"

namespace msitd::compare {

// The end of the reason of a row that fails by such bounds.
inline constexpr char kBySummaries[] =
    "; so the summaries of the whole tensors say";

// Returns lower bounds of the metrics of a pair that hold for all bytes with
// these summaries. Both must be summaries of whole tensors. Metrics without a
// known bound are absent. If the numbers of elements differ, all metrics are
// absent. `request` has the tolerance of outlier_count, if that is requested.
RowMetrics LeastMetrics(const Summary& target, const Summary& golden,
                        const compute::ElementRequest& request);

// Returns these bounds if they prove that the pair fails, so that its bytes
// need not be read; otherwise nullopt. Both sides must exist.
std::optional<RowMetrics> ProveFailure(const TensorPair& pair,
                                       const Verification& verification);

}  // namespace msitd::compare
