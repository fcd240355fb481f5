// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/worker.h"

#include <CLI/CLI.hpp>

#include "client/ctl/invocation.h"
#include "client/fleet/fleet.h"

namespace msitd::ctl {

void AddWorkerFlag(CLI::App& verb, std::string& node) {
  verb.add_option("--at", node,
                  "With --endpoints: this node does the work, and reads what "
                  "the others hold of the runs")
      ->type_name("NODE");
}

Outcome UseWorker(Invocation& invocation, const std::string& node) {
  if (node.empty()) return {};
  if (invocation.fleet() == nullptr) {
    return UsageError("--at names one of the nodes of --endpoints");
  }
  return invocation.fleet()->WorkAt(node);
}

}  // namespace msitd::ctl
