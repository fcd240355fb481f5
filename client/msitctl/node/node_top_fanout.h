// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/node/node_top.h"

namespace msitd::msitctl {

// Shows the activity of many daemons, one line for each. A daemon that does not
// answer within an interval has a line that states this, and is polled again
// for the next table.
ask::Outcome ShowFanoutTop(Invocation& invocation, const TopFlags& flags);

}  // namespace msitd::msitctl
