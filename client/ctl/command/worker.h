// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "client/query/outcome.h"

namespace CLI {
class App;
}

namespace msitd::ctl {

class Invocation;

// Adds --at, which names the one of many daemons that does the work for all.
void AddWorkerFlag(CLI::App& verb, std::string& node);

// Does the work with that node alone, as if --endpoint had named it.
Outcome AtOneNode(Invocation& invocation, const std::string& node,
                  const std::function<Outcome(Invocation& one)>& work);

// Finds out which one of many daemons has a comparison, unless `node` says so.
// `name` is that of one daemon, or NAME@NODE; it becomes that of its daemon.
// Fails if several daemons have it, naming them.
Outcome FindComparison(Invocation& invocation, std::string& name,
                       std::string& node);

// Has that node do the work of this command, if one is named.
Outcome UseWorker(Invocation& invocation, const std::string& node);

}  // namespace msitd::ctl
