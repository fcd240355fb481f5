// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compute/kernel/row_state.h"
#include "daemon/compute/pair_metrics.h"

namespace msitd::compute {

// Adds the metrics of rows and of channels to those of the whole pair, which
// `pair` has seen to its end, as `rows` has; null if no sums are kept.
void AddRowErrors(const RowShape& shape, const PairState& pair, RowState* rows,
                  PairMetrics& out);

}  // namespace msitd::compute
