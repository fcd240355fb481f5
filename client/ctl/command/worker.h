// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/query/outcome.h"

namespace CLI {
class App;
}

namespace msitd::ctl {

class Invocation;

// Adds --at, which names the one of many daemons that does the work for all.
void AddWorkerFlag(CLI::App& verb, std::string& node);

// Has that node do the work of this command, if one is named.
Outcome UseWorker(Invocation& invocation, const std::string& node);

}  // namespace msitd::ctl
