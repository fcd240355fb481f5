// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "client/ask/fanout/comparison_names.h"
#include "client/ask/fanout/node_fanout.h"
#include "client/ask/text/text.h"
#include "client/msitctl/invocation.h"
#include "protos/status/status.h"

namespace msitd::msitctl {

void AddWorkerFlag(CLI::App& verb, std::string& node) {
  verb.add_option("--at", node,
                  "With --endpoints: the node that runs the comparison and "
                  "reads the tensors from the others")
      ->type_name("NODE");
}

ask::Outcome AtOneNode(
    Invocation& invocation, const std::string& node,
    const std::function<ask::Outcome(Invocation& one)>& work) {
  if (invocation.node_fanout() == nullptr) {
    return ask::UsageError("--at requires --endpoints");
  }
  InvocationOptions options = invocation.options();
  const auto found = std::find_if(
      options.nodes.begin(), options.nodes.end(),
      [&node](const auto& known) { return known.endpoint == node; });
  if (found == options.nodes.end()) {
    return ask::UsageError(
        fmt::format("{} is not one of the endpoints", ask::Printable(node)));
  }
  options.connection = *found;
  options.connection.call_timeout.reset();
  options.nodes.clear();
  Invocation one(std::move(options), invocation.interrupts(), invocation.out());
  return work(one);
}

ask::Outcome FindComparison(Invocation& invocation, std::string& name,
                            std::string& node) {
  std::vector<ask::NodeComparison> names;
  if (name.find('@') != std::string::npos) {
    MSITCTL_ASSIGN_OR_USAGE(names, ask::SplitNames(name));
    if (!node.empty()) {
      std::erase_if(names, [&](const auto& one) { return one.node != node; });
      if (names.empty()) {
        return ask::UsageError(fmt::format(
            "{} is not on {}", ask::Printable(name), ask::Printable(node)));
      }
    }
  } else if (!node.empty()) {
    return {};
  } else {
    for (const ask::ConnectionOptions& known : invocation.options().nodes) {
      names.push_back({name, known.endpoint});
    }
    v1::GetComparisonRequest request;
    request.set_comparison(ask::JoinNames(names));
    names.clear();
    MSITCTL_RETURN_IF_FAILED(invocation.node_fanout()->AskEach(
        ask::Connection::NodeCallOf(
            &v1::ComparisonService::Stub::GetComparison),
        request, v1::Comparison::default_instance(),
        [&](const std::string& holder, const google::protobuf::Message&) {
          names.push_back({name, holder});
        }));
  }
  if (names.size() > 1) {
    std::vector<std::string> each;
    for (const ask::NodeComparison& one : names)
      each.push_back(ask::JoinNames({one}));
    return ask::UsageError(ask::Printable(fmt::format(
        "several nodes have {}: use one of {}", name, fmt::join(each, ", "))));
  }
  name = names.front().name;
  node = names.front().node;
  return {};
}

ask::Outcome UseWorker(Invocation& invocation, const std::string& node) {
  if (node.empty()) return {};
  if (invocation.node_fanout() == nullptr) {
    return ask::UsageError("--at requires --endpoints");
  }
  return invocation.node_fanout()->WorkAt(node);
}

}  // namespace msitd::msitctl
