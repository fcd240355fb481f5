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

// Adds --at, which names the one of many daemons that does the work for all.
void AddWorkerFlag(CLI::App& verb, std::string& node);

// Does the work with that node alone, as if --endpoint had named it.
ask::Outcome AtOneNode(
    Invocation& invocation, const std::string& node,
    const std::function<ask::Outcome(Invocation& one)>& work);

// Finds out which one of many daemons has a comparison, unless `node` says so.
// `name` is that of one daemon, or NAME@NODE; it becomes that of its daemon.
// Fails if several daemons have it, naming them.
ask::Outcome FindComparison(Invocation& invocation, std::string& name,
                            std::string& node);

// Has that node do the work of this command, if one is named.
ask::Outcome UseWorker(Invocation& invocation, const std::string& node);

}  // namespace msitd::msitctl
