// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/invocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "client/ask/query/daemon_metrics.h"

namespace msitd::msitctl {

Invocation::Invocation(InvocationOptions options, ask::Interrupts& interrupts,
                       ask::Output& out)
    : ask::Connection(options.connection, interrupts),
      options_(std::move(options)),
      out_(out) {
  if (options_.nodes.empty()) return;
  node_fanout_ = std::make_unique<ask::NodeFanout>(
      options_.nodes, interrupts, [](const std::string& line) {
        fmt::print(stderr, "msitctl: {}\n", line);
      });
  SetFanout(node_fanout_.get());
}

ask::Outcome Invocation::GetMetrics(std::vector<v1::Metric>& metrics) {
  if (!metrics_.has_value()) {
    std::vector<v1::Metric> requested;
    MSITCTL_RETURN_IF_FAILED(ask::GetMetrics(*this, requested));
    metrics_ = std::move(requested);
  }
  metrics = *metrics_;
  return {};
}

void Invocation::TryToGetMetrics() {
  if (metrics_.has_value() || node_fanout_ != nullptr) return;
  if (!Connect().ok()) return;
  grpc::ClientContext context;
  context.set_deadline(
      std::min(UnaryDeadline(), Clock::now() + std::chrono::seconds(1)));
  const ask::Interrupts::Hold hold(interrupts(), &context);
  v1::Capabilities capabilities;
  const grpc::Status status = stub<v1::NodeService::Stub>().GetCapabilities(
      &context, v1::GetCapabilitiesRequest(), &capabilities);
  if (status.ok()) metrics_ = ask::MetricsOf(capabilities);
}

ask::PrintOptions Invocation::print_options(const std::string& columns) const {
  ask::PrintOptions print;
  print.format = options_.format;
  print.table.width = options_.terminal.stdout_width;
  print.table.color = options_.color;
  print.to_terminal = options_.terminal.stdout_is_terminal;
  print.guards_formulas = options_.guards_formulas;
  print.columns = columns;
  if (node_fanout_ != nullptr) {
    print.more_members = [this] { return node_fanout_->JsonMembers(); };
  }
  return print;
}

}  // namespace msitd::msitctl
