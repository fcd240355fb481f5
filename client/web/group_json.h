// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::web {

// Requests groups of rows, and returns them in a compact form, because a map
// has up to millions of them: `ops`, the names of ops, and `groups`, each of
// which is `[op, rank, token, pass, fail, unmatched, skipped, worst,
// worst_row]`. `op` is a position in `ops`, and `worst` may be null. In
// addition `next_row` and `row_count` as in the message, and `has_ended`, which
// is true if the comparison produces no more rows. UNIMPLEMENTED for several
// daemons.
ask::Outcome GroupsPage(ask::Connection& connection,
                        const v1::SummarizeComparisonRowsRequest& request,
                        std::string& json);

}  // namespace msitd::web
