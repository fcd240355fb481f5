// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

class Connection;

// Requests the groups of all rows that a comparison has, and merges those of
// several answers. `out` has the rows from 0 to `row_count`. Errors are those
// of SummarizeComparisonRows and GetCapabilities.
Outcome SummarizeRows(Connection& connection,
                      v1::SummarizeComparisonRowsRequest request,
                      v1::SummarizeComparisonRowsResponse& out);

}  // namespace msitd::ask
