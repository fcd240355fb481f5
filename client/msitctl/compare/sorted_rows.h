// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Rows that are kept for sorting, unless --limit is lower.
inline constexpr int64_t kSortedRowsMax = 10'000;

// Prints the rows that `request` selects, sorted by a metric with the worst
// first: NaN, then the lowest value if higher is better, and otherwise the
// highest. Rows without the metric are last. A note reports how many rows were
// omitted.
ask::Outcome PrintSortedRows(Invocation& invocation,
                             const v1::Comparison& comparison,
                             const v1::ListComparisonRowsRequest& request,
                             const std::string& metric, const ListFlags& flags,
                             const std::function<void()>& when_empty);

}  // namespace msitd::msitctl
