// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ask/text/conclusion.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::msitctl {

// What the flags of a command allow for.
inline ask::Allowed AllowedBy(const ListFlags& flags) {
  return {flags.allow_partial, flags.allow_undecided};
}

// How long a user waited for a comparison.
using Seconds = std::chrono::duration<double>;

// `"verdict":"PASS"`, PARTIAL or FAIL: a member of the JSON of a comparison.
std::string VerdictMember(const v1::Comparison& comparison,
                          ask::Allowed allowed);

// Asks for the rows with these verdicts; none stands for all.
v1::ListComparisonRowsRequest RowsRequest(
    const std::string& comparison, const std::vector<v1::Verdict>& verdicts);

// Says on stderr that a limit has left out some of the rows with these
// verdicts; does nothing if `printed_count` is their number.
void NoteRowsLeftOut(const v1::Comparison& comparison,
                     const std::vector<v1::Verdict>& verdicts,
                     int64_t printed_count);

// Says on stderr which rules have met no op.
void TellIdleRules(const v1::Comparison& comparison);

// Returns the lines over the rows of a table: runs, verdict, counts, first
// divergence, who made it, and the tolerances that would pass. Printable; in
// colour if `color`.
std::string VerdictHeader(const v1::Comparison& comparison, Seconds elapsed,
                          bool color, ask::Allowed allowed);

// Asks the daemon which metrics it has itself. Of one that does not tell more
// than their names, that is all that is known.
ask::Outcome GetMetrics(Invocation& invocation,
                        std::vector<v1::Metric>& metrics);

std::vector<std::string> NamesOf(const std::vector<v1::Metric>& metrics);

// How rows of `comparison`, of which policy and custom metrics count, are
// shown; no table does without the metric `wanted`. Asks the daemon which
// metrics it has itself.
ask::ListLayout RowLayout(Invocation& invocation,
                          const v1::Comparison& comparison,
                          std::string_view wanted = {});

// What completion offers for --columns of rows.
std::vector<std::string> RowColumnWords();

// Prints rows of `comparison`, of which name, policy and custom metrics count,
// by themselves.
// Calls `when_empty` behind no rows.
ask::Outcome PrintRows(Invocation& invocation, const v1::Comparison& comparison,
                       const v1::ListComparisonRowsRequest& request,
                       const ListFlags& flags,
                       const std::function<void()>& when_empty = {});

// Prints the end of a comparison in the format of the invocation: a table has
// the header and then rows, JSON both as one StreamComparisonRowsResponse with
// a `verdict`, CSV the rows, a name the name of the comparison. No rows if
// `verdicts` is null.
ask::Outcome PrintComparison(Invocation& invocation,
                             const v1::Comparison& comparison, Seconds elapsed,
                             const std::vector<v1::Verdict>* verdicts,
                             const ListFlags& flags);

}  // namespace msitd::msitctl
