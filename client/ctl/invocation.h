// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/ctl/print/output.h"
#include "client/ctl/print/printer.h"
#include "client/ctl/print/terminal.h"
#include "client/fleet/fleet.h"
#include "client/query/connection.h"

namespace msitd::ctl {

// The global flags, checked.
struct InvocationOptions {
  ConnectionOptions connection;
  // Not empty: these daemons are asked instead, as if they were one.
  std::vector<ConnectionOptions> nodes;

  Format format = Format::kTable;
  bool color = false;
  bool progress = false;
  bool guards_formulas = false;
  Terminal terminal;
};

// What a verb works with: one daemon and one place to print to.
// Thread-compatible.
class Invocation : public Connection {
 public:
  // Borrows `interrupts` and `out`.
  Invocation(InvocationOptions options, Interrupts& interrupts, Output& out);

  const InvocationOptions& options() const { return options_; }
  Output& out() { return out_; }
  // Null if one daemon is asked.
  Fleet* fleet() { return fleet_.get(); }
  bool is_table() const { return options_.format == Format::kTable; }

  // Returns the options of a printer. `columns` is the flag of the verb.
  PrintOptions print_options(const std::string& columns = {}) const;

 private:
  const InvocationOptions options_;
  Output& out_;
  std::unique_ptr<Fleet> fleet_;
};

}  // namespace msitd::ctl
