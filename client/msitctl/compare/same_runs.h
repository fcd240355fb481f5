// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Sets `is_replaced` if the daemon has a run with this name but another id. A
// comparison and its rows contain names of runs, so data that is read by that
// name would belong to the other run. False if there is no such run, or if the
// id is empty, as in comparisons of older daemons.
ask::Outcome FindReplacement(Invocation& invocation, const std::string& run,
                             const std::string& id, bool& is_replaced);

// Returns RUN_REPLACED if a run of the comparison on this daemon was replaced.
ask::Outcome CheckSameRuns(Invocation& invocation,
                           const v1::Comparison& comparison);

}  // namespace msitd::msitctl
