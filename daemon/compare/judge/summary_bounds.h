// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compute/element_metrics.h"
#include "protos/base/summary.h"

namespace msitd::compare {

// Returns lower bounds of the metrics of a pair that hold whatever its bytes
// are, from the summaries of two whole tensors with equally many elements. A
// metric without a known bound is absent. `request` has the tolerance of
// outlier_count, if that is asked for.
RowMetrics LeastMetrics(const Summary& target, const Summary& golden,
                        const compute::ElementRequest& request);

// Returns these bounds of a pair with both sides if its predicate cannot hold
// with them, whatever the bytes are.
std::optional<RowMetrics> ProveFailure(const TensorPair& pair,
                                       const Verification& verification);

}  // namespace msitd::compare
