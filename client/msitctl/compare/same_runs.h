// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Sets `is_replaced` if the daemon has a run of this name that is not the one
// with this id. A comparison and its rows name a run, so what is read by that
// name would be of the other run. False if there is no such run, or if the id,
// as older daemons leave it, is empty.
ask::Outcome FindReplacement(Invocation& invocation, const std::string& run,
                             const std::string& id, bool& is_replaced);

// Fails with RUN_REPLACED if a run of the comparison that this daemon had was
// replaced.
ask::Outcome CheckSameRuns(Invocation& invocation,
                           const v1::Comparison& comparison);

}  // namespace msitd::msitctl
