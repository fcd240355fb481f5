// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compute/kernel/row_state.h"
#include "daemon/compute/pair_metrics.h"

namespace msitd::compute {

// Adds the metrics of rows and channels to those of the whole pair. All
// elements must have been added to `pair` and to `rows`, which is null if no
// sums of rows are kept.
void AddRowErrors(const RowShape& shape, const PairState& pair, RowState* rows,
                  PairMetrics& out);

}  // namespace msitd::compute
