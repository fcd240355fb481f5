// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compute/kernel/pair_state.h"
#include "daemon/compute/pair_metrics.h"

namespace msitd::compute {

// Returns the metrics of the elements that were added to `state`.
PairMetrics ToMetrics(const PairState& state);

}  // namespace msitd::compute
