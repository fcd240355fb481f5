// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

// Answers about comparisons that combine several calls and the texts of
// msitctl. Each result is a JSON object on one line.
namespace msitd::web {

// Comparisons in one list, the newest ones.
inline constexpr size_t kComparisonsMax = 500;

// Returns `comparisons`, newest first: name, runs, state, verdict, the finding
// in a sentence, and counts.
ask::Outcome ComparisonList(ask::Connection& connection, std::string& json);

// Returns `comparison` as msitctl prints it in JSON, and `title`, `verdict`,
// `findings` and `setup`, which are those of the HTML report, and the `metrics`
// of the daemon.
ask::Outcome ComparisonPage(ask::Connection& connection,
                            const std::string& name, std::string& json);

// Returns one page of `rows`, see RowJson, and `next_page_token`. With several
// daemons, `row_nodes` has the daemon of each row, and `node` selects one.
ask::Outcome RowsPage(ask::Connection& connection,
                      const v1::ListComparisonRowsRequest& request,
                      const std::string& node, std::string& json);

// Returns everything about one row: `row`, see RowJson, the `message` as
// msitctl prints it in JSON, and for each of `golden` and `target` its `tensor`
// and `histogram`, which are null if they are not available. `note` states why.
// UNIMPLEMENTED for several daemons, of which each has its own numbers of rows.
ask::Outcome RowPage(ask::Connection& connection, const std::string& name,
                     int64_t row, std::string& json);

}  // namespace msitd::web
