// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/node/node_top_fanout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/fanout/node_fanout.h"
#include "client/ask/print/table.h"
#include "client/ask/text/text.h"
#include "client/msitctl/node/node_top_text.h"

namespace msitd::msitctl {
namespace {

using Statuses = std::map<std::string, v1::NodeStatus>;

// The deadline of a node is the time between two tables, but not less than
// this.
constexpr std::chrono::milliseconds kNodeTimeMin{1000};

// Fails only if the request is invalid or interrupted, or if no node answers.
ask::Outcome TakeLook(ask::NodeFanout& fanout, Statuses& statuses) {
  statuses.clear();
  fanout.AskAgain();
  return fanout.AskEach(
      ask::Connection::NodeCallOf(&v1::NodeService::Stub::GetNodeStatus),
      v1::GetNodeStatusRequest(), v1::NodeStatus::default_instance(),
      [&statuses](const std::string& node,
                  const google::protobuf::Message& status) {
        statuses[node] = static_cast<const v1::NodeStatus&>(status);
      });
}

int64_t LostOf(const v1::NodeStatus& status) {
  return status.dropped_count() + status.truncated_count();
}

std::vector<std::string> Cells(const std::string& node,
                               const v1::NodeStatus* before,
                               const v1::NodeStatus& is) {
  const int64_t uptime_ms = ToMs(is.uptime());
  // By the clock of the node, independent of the time of its answer.
  const int64_t passed_ms =
      before == nullptr ? 0 : uptime_ms - ToMs(before->uptime());
  const auto rate = [&](auto get) {
    return Rate(get(*before), get(is), static_cast<double>(passed_ms) / 1000);
  };
  std::string bytes = "-";
  std::string records = "-";
  std::string lost = "-";
  if (passed_ms > 0) {
    bytes = SizeRate(
        rate([](const auto& status) { return status.committed_bytes(); }));
    records = fmt::format("{:.0f}", rate([](const auto& status) {
                            return status.committed_record_count();
                          }));
    lost = fmt::format("{:.0f}", rate(LostOf));
  }
  return {node,
          v1::NodeStatus::StorageState_Name(is.storage_state()),
          ask::HumanDuration(static_cast<double>(uptime_ms) / 1000),
          fmt::format("{}", is.run_count()),
          fmt::format("{}", is.open_stream_count()),
          bytes,
          records,
          Percent(is.ring_used_bytes(), is.ring_size_bytes()),
          fmt::format("{}", LostOf(is)),
          lost,
          fmt::format("{}", is.degraded_count()),
          fmt::format("{}", is.active_comparison_count()),
          ask::HumanSize(is.disk_free_bytes())};
}

std::string TableOf(const std::vector<ask::ConnectionOptions>& nodes,
                    const ask::NodeFanout& fanout, const Statuses& before,
                    const Statuses& after, const ask::Table::Style& style) {
  using Need = ask::ColumnNeed;
  ask::Table table({{"node"},
                    {"storage"},
                    {"up", true},
                    {"runs", true},
                    {"streams", true},
                    {"rate", true},
                    {"records/s", true},
                    {"ring", true},
                    {"lost", true},
                    {"lost/s", true, Need::kIfRoom},
                    {"degraded", true, Need::kIfRoom},
                    {"comparisons", true, Need::kIfRoom},
                    {"free", true, Need::kIfRoom}},
                   style);
  constexpr size_t kCells = 13;
  std::string failed;
  for (const ask::ConnectionOptions& node : nodes) {
    const auto found = after.find(node.endpoint);
    if (found == after.end()) {
      // Another address of a daemon that is already shown.
      if (fanout.ErrorOf(node.endpoint).empty()) continue;
      std::vector<std::string> cells(kCells, "-");
      cells[0] = node.endpoint;
      cells[1] = "no answer";
      table.Add(std::move(cells));
      failed +=
          ask::Printable(fmt::format("no answer from {}: {}", node.endpoint,
                                     fanout.ErrorOf(node.endpoint))) +
          "\n";
      continue;
    }
    const auto was = before.find(node.endpoint);
    table.Add(Cells(node.endpoint, was == before.end() ? nullptr : &was->second,
                    found->second));
  }
  return table.Flush() + failed;
}

}  // namespace

ask::Outcome ShowFanoutTop(Invocation& invocation, const TopFlags& flags) {
  std::vector<ask::ConnectionOptions> nodes = invocation.options().nodes;
  for (ask::ConnectionOptions& node : nodes) {
    const auto most = std::max(flags.interval, kNodeTimeMin);
    node.call_timeout = std::min(node.call_timeout.value_or(most), most);
    node.connect_timeout = std::min(node.connect_timeout, most);
  }
  // The table shows nodes that do not answer.
  ask::NodeFanout fanout(nodes, invocation.interrupts(),
                         [](const std::string&) {});
  const bool in_place =
      !flags.once && invocation.options().terminal.stdout_is_terminal;
  Statuses before;
  ask::Outcome outcome = TakeLook(fanout, before);
  for (bool is_first = true;; is_first = false) {
    if (outcome.exit_code == ask::kExitInterrupted) return outcome;
    if (invocation.interrupts().WaitFor(flags.interval))
      return ask::Interrupted();
    Statuses after;
    outcome = TakeLook(fanout, after);
    if (outcome.exit_code == ask::kExitInterrupted) return outcome;
    std::string text =
        TableOf(nodes, fanout, before, after, invocation.print_options().table);
    if (in_place) {
      text = InPlace(text);
    } else if (!is_first) {
      text = "\n" + text;
    }
    invocation.out().Write(text);
    if (flags.once) {
      if (outcome.ok() && fanout.has_failed())
        outcome.exit_code = ask::kExitPartial;
      return outcome;
    }
    invocation.out().Flush();
    before = std::move(after);
  }
}

}  // namespace msitd::msitctl
