// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/exec/exec_flags.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Receives the daemon that has recorded, the runs, at least one, and the exit
// code of the command.
using AfterExec =
    std::function<ask::Outcome(ask::Connection& connection,
                               const std::vector<std::string>& runs, int code)>;

// Runs a command and records the calls in its Python processes. Returns the
// result of `then`, which may be null; an outcome of its own if the command
// cannot be run, and the exit code of the command if nothing was recorded.
ask::Outcome Exec(Invocation& invocation, const ExecFlags& flags,
                  const AfterExec& then);

}  // namespace msitd::msitctl
