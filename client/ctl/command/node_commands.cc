// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/command/pages.h"
#include "client/ctl/command_line.h"

namespace msitd::ctl {
namespace {

Outcome PrintStatus(Invocation& invocation) {
  v1::NodeStatus status;
  MSITCTL_RETURN_IF_FAILED(invocation.Ask(&v1::NodeService::Stub::GetNodeStatus,
                                          v1::GetNodeStatusRequest(), status));
  return PrintOne(invocation, status, "");
}

Outcome PrintCapabilities(Invocation& invocation) {
  v1::Capabilities capabilities;
  MSITCTL_RETURN_IF_FAILED(
      invocation.Ask(&v1::NodeService::Stub::GetCapabilities,
                     v1::GetCapabilitiesRequest(), capabilities));
  const bool is_names = invocation.options().format == Format::kName;
  if (!invocation.is_table() && !is_names) {
    return PrintOne(invocation, capabilities, "");
  }
  if (invocation.is_table()) {
    std::vector<std::string> hidden = {"metric_table"};
    // An older daemon tells their names only.
    if (!capabilities.metric_table().empty()) hidden.emplace_back("metrics");
    MSITCTL_RETURN_IF_FAILED(
        PrintOne(invocation, capabilities, "", std::move(hidden)));
    invocation.out().Write("\n");
  }
  ListLayout layout;
  layout.name = "name";
  layout.response = v1::Capabilities::descriptor();
  layout.field = "metric_table";
  layout.columns = "metric=name,direction,unit,family";
  std::unique_ptr<ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ListPrinter::Create(std::move(layout), invocation.print_options(),
                          invocation.out()));
  for (const v1::Metric& metric : capabilities.metric_table()) {
    printer->Add(metric);
  }
  printer->Finish(capabilities);
  return {};
}

}  // namespace

void AddNodeCommands(CommandLine& line) {
  CLI::App& noun =
      line.AddNoun("node", "The daemon itself.", "msitctl node status");
  line.AddVerb(noun,
               {.name = "status",
                .summary = "Prints how the daemon does: state and counters.",
                .examples = "msitctl node status\n"
                            "msitctl --endpoint node7:7741 node status -o json",
                .rpcs = "NodeService.GetNodeStatus"},
               PrintStatus);
  line.AddVerb(noun,
               {.name = "capabilities",
                .summary = "Prints what the daemon can do, and its limits; "
                           "-o name prints its metrics.",
                .examples = "msitctl node capabilities\n"
                            "msitctl node capabilities -o name",
                .rpcs = "NodeService.GetCapabilities"},
               PrintCapabilities);
}

}  // namespace msitd::ctl
