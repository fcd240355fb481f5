// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// The parts of a command that are recorded. docs/exec.md describes the flags.
struct ExecFlags {
  std::string run;
  std::vector<std::string> ops;
  std::string level = "module";
  std::string stack = "none";
  bool weights = false;
  bool gradients = false;
  bool aliases = false;
  std::vector<std::string> map_paths;
  std::vector<std::string> map_devices;
  // Runs whose tensors are passed to modules. The first one with a tensor is
  // used.
  std::vector<std::string> inject;
  // "inputs" or "outputs".
  std::string inject_what = "inputs";
  // The rank in these runs. Below 0: that of each process.
  int inject_rank = -1;
  // Records into a daemon of this command, with its store in this folder.
  std::string data_dir;
  // The same, with its store in a folder that is named after the run.
  bool is_private = false;
  std::vector<std::string> words;
};

// Binds all flags except those of --inject, and the command. `flags` outlives
// `verb`.
void AddExecFlags(CLI::App& verb, ExecFlags& flags);

// Receives the daemon that has recorded, the runs, at least one, and the exit
// code of the command.
using AfterExec =
    std::function<ask::Outcome(ask::Connection& connection,
                               const std::vector<std::string>& runs, int code)>;

// Runs a command and records the calls in its Python processes. Returns the
// result of `then`, which may be null; an outcome of its own if the command
// cannot be run, and the exit code of the command if nothing was recorded.
ask::Outcome Exec(Invocation& invocation, const ExecFlags& flags,
                  const AfterExec& then);

}  // namespace msitd::msitctl
