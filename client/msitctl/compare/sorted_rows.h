// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Rows that are kept while all are looked at, unless --limit says fewer.
inline constexpr int64_t kSortedRowsMax = 10'000;

// Prints the rows that `request` selects by a metric, the worst first: NaN,
// then the least of one that is better the higher, the largest of any other.
// Rows that do not have it come last. A note says how many there is no room
// for.
ask::Outcome PrintSortedRows(Invocation& invocation,
                             const v1::Comparison& comparison,
                             const v1::ListComparisonRowsRequest& request,
                             const std::string& metric, const ListFlags& flags,
                             const std::function<void()>& when_empty);

}  // namespace msitd::msitctl
