// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/query/endpoint.h"
#include "client/ask/text/text.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/node/node_diag.h"
#include "client/msitctl/node/node_top.h"
#include "client/msitctl/node/node_top_fanout.h"
#include "client/msitctl/verb/pages.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Prints a block of the table, or an element of the JSON, for each of several
// daemons.
ask::Outcome PrintStatuses(Invocation& invocation) {
  const bool is_json = invocation.options().format == ask::Format::kJson;
  if (!is_json && !invocation.is_table()) {
    return ask::UsageError(
        "node status of several daemons supports only the formats table and "
        "json");
  }
  ask::PrintOptions options = invocation.print_options();
  options.more_members = nullptr;
  std::string json;
  absl::Status printed;
  MSITCTL_RETURN_IF_FAILED(invocation.node_fanout()->AskEach(
      ask::Connection::NodeCallOf(&v1::NodeService::Stub::GetNodeStatus),
      v1::GetNodeStatusRequest(), v1::NodeStatus::default_instance(),
      [&](const std::string& node, const google::protobuf::Message& status) {
        if (is_json) {
          json += fmt::format("{}{{\"node\": {}, \"status\": {}}}",
                              json.empty() ? "" : ",\n",
                              nlohmann::json(node).dump(),
                              ask::ToJson(status, /*indented=*/false, options));
          return;
        }
        invocation.out().Write(ask::Printable(node) + "\n");
        printed.Update(
            ask::PrintMessage(status, "", options, invocation.out()));
        invocation.out().Write("\n");
      }));
  if (is_json) {
    invocation.out().Write(
        fmt::format("{{\"statuses\": [\n{}\n],\n{}}}\n", json,
                    invocation.node_fanout()->JsonMembers()));
  }
  return printed.ok() ? ask::Outcome() : ask::UsageError(Message(printed));
}

ask::Outcome PrintStatus(Invocation& invocation) {
  if (invocation.node_fanout() != nullptr) return PrintStatuses(invocation);
  v1::NodeStatus status;
  MSITCTL_RETURN_IF_FAILED(invocation.Ask(&v1::NodeService::Stub::GetNodeStatus,
                                          v1::GetNodeStatusRequest(), status));
  return PrintOne(invocation, status, "");
}

ask::Outcome PrintCapabilities(Invocation& invocation) {
  v1::Capabilities capabilities;
  MSITCTL_RETURN_IF_FAILED(
      invocation.Ask(&v1::NodeService::Stub::GetCapabilities,
                     v1::GetCapabilitiesRequest(), capabilities));
  const bool is_names = invocation.options().format == ask::Format::kName;
  if (!invocation.is_table() && !is_names) {
    return PrintOne(invocation, capabilities, "");
  }
  if (invocation.is_table()) {
    std::vector<std::string> hidden = {"metric_table"};
    // An older daemon reports only their names.
    if (!capabilities.metric_table().empty()) hidden.emplace_back("metrics");
    MSITCTL_RETURN_IF_FAILED(
        PrintOne(invocation, capabilities, "", std::move(hidden)));
    invocation.out().Write("\n");
  }
  ask::ListLayout layout;
  layout.name = "name";
  layout.response = v1::Capabilities::descriptor();
  layout.field = "metric_table";
  layout.columns = "metric=name,direction,unit,family";
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(std::move(layout), invocation.print_options(),
                               invocation.out()));
  for (const v1::Metric& metric : capabilities.metric_table()) {
    printer->Add(metric);
  }
  printer->Finish(capabilities);
  return {};
}

struct TopWords {
  std::string interval = "2s";
  bool once = false;
};

ask::Outcome Top(Invocation& invocation, const TopWords& words) {
  const bool asks_many = invocation.node_fanout() != nullptr;
  if (invocation.options().format != ask::Format::kTable) {
    if (asks_many)
      return ask::UsageError(
          "node top of several daemons supports only the format table");
    ask::ListLayout layout;
    layout.field = "streams";
    layout.name = "run";
    return PrintPages(invocation, layout, ListFlags(),
                      &v1::NodeService::Stub::ListStreams,
                      v1::ListStreamsRequest());
  }
  const auto interval = ask::ParseDuration(words.interval);
  if (!interval.ok()) {
    return ask::UsageError(
        fmt::format("--interval: {}", Message(interval.status())));
  }
  const TopFlags flags{*interval, words.once};
  return asks_many ? ShowFanoutTop(invocation, flags)
                   : ShowTop(invocation, flags);
}

void AddTop(CommandLine& line, CLI::App& noun) {
  auto words = std::make_shared<TopWords>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "top",
       .summary = "Show the rates, memory use and losses of each stream. With "
                  "several daemons, show one line for each. Formats other than "
                  "table print the counters once.",
       .examples = "msitctl node top\n"
                   "msitctl node top --once --interval 10s\n"
                   "msitctl --endpoints node1:7741,node2:7741 node top",
       .rpcs = "NodeService.GetNodeStatus, NodeService.ListStreams",
       .takes_nodes = true},
      [words](Invocation& invocation) { return Top(invocation, *words); });
  verb.add_option("--interval", words->interval,
                  "Time between two updates, such as 500ms or 10s")
      ->type_name("DURATION")
      ->capture_default_str();
  verb.add_flag("--once", words->once, "Print one table and exit");
}

void AddDiag(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<DiagFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "diag",
       .summary = "Write a tar archive for troubleshooting: status, "
                  "configuration, metrics, the end of the log, and a list of "
                  "the files in the store. It contains no bytes of tensors.",
       .examples = "msitctl node diag\n"
                   "msitctl node diag --out /tmp/node7.tar",
       .rpcs = "NodeService.GetDiagnostics, NodeService.GetNodeStatus, "
               "NodeService.GetCapabilities, NodeService.ListStreams, "
               "RunService.ListRuns"},
      [flags](Invocation& invocation) {
        return WriteDiagnostics(invocation, *flags);
      });
  verb.add_option(
          "--out", flags->out,
          "File to write; - is stdout. Default: a name with the current time")
      ->type_name("FILE");
  verb.add_flag("--tensor-names", flags->tensor_names,
                "Include the names of tensors");
}

}  // namespace

void AddNodeCommands(CommandLine& line) {
  CLI::App& noun =
      line.AddNoun("node", "The daemon itself.", "msitctl node status");
  auto allows_partial = std::make_shared<bool>(false);
  CLI::App& status = line.AddVerb(
      noun,
      {.name = "status",
       .summary = "Print the daemon's state and counters.",
       .examples = "msitctl node status\n"
                   "msitctl --endpoint node7:7741 node status -o json",
       .rpcs = "NodeService.GetNodeStatus",
       .takes_nodes = true},
      [allows_partial](Invocation& invocation) {
        return PrintStatus(invocation);
      });
  AddPartialFlag(status, *allows_partial);
  line.AddVerb(noun,
               {.name = "capabilities",
                .summary = "Print the daemon's capabilities and limits. -o "
                           "name prints its metrics.",
                .examples = "msitctl node capabilities\n"
                            "msitctl node capabilities -o name",
                .rpcs = "NodeService.GetCapabilities"},
               PrintCapabilities);
  AddTop(line, noun);
  AddDiag(line, noun);
}

}  // namespace msitd::msitctl
