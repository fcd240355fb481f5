// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/exec/exec_daemon.h"
#include "client/msitctl/exec/exec_flags.h"
#include "client/msitctl/exec/recorded_command.h"
#include "client/msitctl/invocation.h"

// A command that is run twice, to compare its two runs.
//
// The second time is the same again, to find what is not deterministic, or
// differs in one respect, such as float64 for the whole model, to find what
// that changes. The command itself need not be changed for it.
namespace msitd::msitctl {

// Binds --twice and --against, which set `second`. It outlives `verb`.
void AddSecondRunFlags(CLI::App& verb, std::string& second);

// Runs the command of `flags` again, as `flags.second` says, and compares the
// runs with those of the `first` time, each with its counterpart. `run` is the
// name that was asked for the first time. The outcome is that of the
// comparisons; if a command fails, its exit code, and nothing is compared.
ask::Outcome RunAgain(Invocation& invocation, const ExecFlags& flags,
                      const std::string& run, const RecordedCommand& first,
                      ExecDaemon& daemon);

}  // namespace msitd::msitctl
