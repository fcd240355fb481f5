// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Waits until a run with this name exists, and reports on stderr that it waits.
ask::Outcome AwaitRun(Invocation& invocation, const std::string& run);

}  // namespace msitd::msitctl
