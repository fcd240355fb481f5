// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/fanout/node_fanout.h"
#include "client/ask/print/output.h"
#include "client/ask/print/printer.h"
#include "client/ask/print/terminal.h"
#include "client/ask/query/connection.h"

namespace msitd::msitctl {

// The validated global flags.
struct InvocationOptions {
  ask::ConnectionOptions connection;
  // If not empty, these daemons are called like a single one.
  std::vector<ask::ConnectionOptions> nodes;

  ask::Format format = ask::Format::kTable;
  bool color = false;
  bool progress = false;
  bool guards_formulas = false;
  ask::Terminal terminal;
};

// The resources of a verb: one daemon and one output. Thread-compatible.
class Invocation : public ask::Connection {
 public:
  // Borrows `interrupts` and `out`.
  Invocation(InvocationOptions options, ask::Interrupts& interrupts,
             ask::Output& out);

  const InvocationOptions& options() const { return options_; }
  ask::Output& out() { return out_; }
  // Null if a single daemon is called.
  ask::NodeFanout* node_fanout() { return node_fanout_.get(); }
  bool is_table() const { return options_.format == ask::Format::kTable; }

  // Same as ask::GetMetrics, but requests them only once.
  ask::Outcome GetMetrics(std::vector<v1::Metric>& metrics);
  // Requests them for a later GetMetrics, which must not be called at the same
  // time, unlike other calls. Gives up after a second.
  void TryToGetMetrics();

  // Returns the options of a printer. `columns` is the flag of the verb.
  ask::PrintOptions print_options(const std::string& columns = {}) const;

 private:
  const InvocationOptions options_;
  ask::Output& out_;
  std::unique_ptr<ask::NodeFanout> node_fanout_;
  std::optional<std::vector<v1::Metric>> metrics_;
};

}  // namespace msitd::msitctl
