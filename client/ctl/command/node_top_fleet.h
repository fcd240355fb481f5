// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ctl/command/node_top.h"
#include "client/ctl/invocation.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// Shows what each of many daemons does, a line for each. One that does not
// answer within an interval is a line that says so, and is asked again for the
// next table.
Outcome ShowFleetTop(Invocation& invocation, const TopFlags& flags);

}  // namespace msitd::ctl
