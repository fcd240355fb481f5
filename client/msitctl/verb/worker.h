// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "client/ask/query/outcome.h"

namespace CLI {
class App;
}

namespace msitd::msitctl {

class Invocation;

// Adds --at, which names the daemon that does the work for all others.
void AddWorkerFlag(CLI::App& verb, std::string& node);

// Does the work using only that node, as if --endpoint had named it.
ask::Outcome AtOneNode(
    Invocation& invocation, const std::string& node,
    const std::function<ask::Outcome(Invocation& one)>& work);

// Finds the daemon that has a comparison, unless `node` specifies it. `name` is
// that of one daemon, or NAME@NODE; it is set to the name on its daemon.
// Returns an error that lists the daemons if several have it.
ask::Outcome FindComparison(Invocation& invocation, std::string& name,
                            std::string& node);

// Selects that node for the work of this command, if one is named.
ask::Outcome UseWorker(Invocation& invocation, const std::string& node);

}  // namespace msitd::msitctl
