// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ask/text/conclusion.h"
#include "client/msitctl/compare/verdict_header.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::msitctl {

// The default number of rows below the header of a table.
inline constexpr int64_t kTableRows = 20;

// Returns the deficiencies that the flags of a command allow.
inline ask::Allowed AllowedBy(const ListFlags& flags) {
  return {flags.allow_partial, flags.allow_undecided};
}

// Returns `"verdict":"PASS"`, PARTIAL or FAIL: a member of the JSON of a
// comparison.
std::string VerdictMember(const v1::Comparison& comparison,
                          ask::Allowed allowed);

// Returns a request for the rows with these verdicts; none stands for all.
v1::ListComparisonRowsRequest RowsRequest(
    const std::string& comparison, const std::vector<v1::Verdict>& verdicts);

// Prints on stderr that a limit has omitted some of the rows with these
// verdicts. Does nothing if `printed_count` is their number.
void NoteRowsLeftOut(const v1::Comparison& comparison,
                     const std::vector<v1::Verdict>& verdicts,
                     int64_t printed_count);

// Prints on stderr the rules that matched no op.
void TellIdleRules(const v1::Comparison& comparison);

std::vector<std::string> NamesOf(const std::vector<v1::Metric>& metrics);

// Returns the layout for rows of `comparison`, of which policy and custom
// metrics are used. Every table has the metric `wanted`. Requests the metrics
// of the daemon.
ask::ListLayout RowLayout(Invocation& invocation,
                          const v1::Comparison& comparison,
                          std::string_view wanted = {});

// Returns the completions of --columns for rows.
std::vector<std::string> RowColumnWords();

// Prints only the rows of `comparison`, of which name, policy and custom
// metrics are used. Calls `when_empty` if there are none.
ask::Outcome PrintRows(Invocation& invocation, const v1::Comparison& comparison,
                       const v1::ListComparisonRowsRequest& request,
                       const ListFlags& flags,
                       const std::function<void()>& when_empty = {});

// Prints a finished comparison in the format of the invocation. A table has the
// header and then rows, JSON has both as one StreamComparisonRowsResponse with
// a `verdict`, CSV has the rows, and a name is that of the comparison. Prints
// no rows if `verdicts` is null.
ask::Outcome PrintComparison(Invocation& invocation,
                             const v1::Comparison& comparison, Seconds elapsed,
                             const std::vector<v1::Verdict>* verdicts,
                             const ListFlags& flags);

}  // namespace msitd::msitctl
