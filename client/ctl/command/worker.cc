// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "client/ctl/invocation.h"
#include "client/fleet/comparison_names.h"
#include "client/fleet/fleet.h"
#include "client/text/text.h"
#include "protos/status/status.h"

namespace msitd::ctl {

void AddWorkerFlag(CLI::App& verb, std::string& node) {
  verb.add_option("--at", node,
                  "With --endpoints: this node does the work, and reads what "
                  "the others hold of the runs")
      ->type_name("NODE");
}

Outcome AtOneNode(Invocation& invocation, const std::string& node,
                  const std::function<Outcome(Invocation& one)>& work) {
  if (invocation.fleet() == nullptr) {
    return UsageError("--at names one of the nodes of --endpoints");
  }
  InvocationOptions options = invocation.options();
  const auto found = std::find_if(
      options.nodes.begin(), options.nodes.end(),
      [&node](const auto& known) { return known.endpoint == node; });
  if (found == options.nodes.end()) {
    return UsageError(
        fmt::format("{} is none of the endpoints", Printable(node)));
  }
  options.connection = *found;
  options.connection.call_timeout.reset();
  options.nodes.clear();
  Invocation one(std::move(options), invocation.interrupts(), invocation.out());
  return work(one);
}

Outcome FindComparison(Invocation& invocation, std::string& name,
                       std::string& node) {
  std::vector<NodeComparison> names;
  if (name.find('@') != std::string::npos) {
    MSITCTL_ASSIGN_OR_USAGE(names, SplitNames(name));
    if (!node.empty()) {
      std::erase_if(names, [&](const auto& one) { return one.node != node; });
      if (names.empty()) {
        return UsageError(
            fmt::format("{} is not of {}", Printable(name), Printable(node)));
      }
    }
  } else if (!node.empty()) {
    return {};
  } else {
    for (const ConnectionOptions& known : invocation.options().nodes) {
      names.push_back({name, known.endpoint});
    }
    v1::GetComparisonRequest request;
    request.set_comparison(JoinNames(names));
    names.clear();
    MSITCTL_RETURN_IF_FAILED(invocation.fleet()->AskEach(
        Connection::NodeCallOf(&v1::ComparisonService::Stub::GetComparison),
        request, v1::Comparison::default_instance(),
        [&](const std::string& holder, const google::protobuf::Message&) {
          names.push_back({name, holder});
        }));
  }
  if (names.size() > 1) {
    std::vector<std::string> each;
    for (const NodeComparison& one : names) each.push_back(JoinNames({one}));
    return UsageError(Printable(fmt::format(
        "several nodes have {}: name one of {}", name, fmt::join(each, ", "))));
  }
  name = names.front().name;
  node = names.front().node;
  return {};
}

Outcome UseWorker(Invocation& invocation, const std::string& node) {
  if (node.empty()) return {};
  if (invocation.fleet() == nullptr) {
    return UsageError("--at names one of the nodes of --endpoints");
  }
  return invocation.fleet()->WorkAt(node);
}

}  // namespace msitd::ctl
