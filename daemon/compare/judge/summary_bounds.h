// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compute/element_metrics.h"
#include "protos/base/summary.h"

namespace msitd::compare {

// What the summaries of two whole tensors with equally many elements prove of
// the metrics of the pair, whatever its bytes are: each is this or larger.
// Those of which nothing is known are absent. `request` has the tolerance of
// outlier_count, if that is asked for.
RowMetrics LeastMetrics(const Summary& target, const Summary& golden,
                        const compute::ElementRequest& request);

}  // namespace msitd::compare
