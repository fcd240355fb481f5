// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/node/node_top.h"

namespace msitd::msitctl {

// Shows what each of many daemons does, a line for each. One that does not
// answer within an interval is a line that says so, and is asked again for the
// next table.
ask::Outcome ShowFleetTop(Invocation& invocation, const TopFlags& flags);

}  // namespace msitd::msitctl
