// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/print/output.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/stdio/stdin_lines.h"

namespace msitd::msitctl {

class Invocation;

// The result of a command.
struct CapturedAnswer {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Runs many commands of msitctl in this process, for a program that is
// connected to stdin and stdout. The output of a command goes into memory.
//
// While it lives, stdin is empty for the commands, stdout and stderr are
// redirected, and gRPC keeps its threads and tables between commands. No other
// thread may write to these streams. Thread-compatible.
class CapturedCommands {
 public:
  // Errors: those of the system.
  static ask::Outcome Create(Invocation& invocation,
                             std::unique_ptr<CapturedCommands>& out);
  virtual ~CapturedCommands() = default;

  // Parses the flags of all commands in advance. Does nothing if that is done.
  virtual void Prepare() = 0;

  // Runs a command; `words` are those after `msitctl`.
  virtual CapturedAnswer Run(const std::vector<std::string>& words) = 0;

  // The lines that the program sends.
  virtual StdinLines& requests() = 0;
  // The output that the program reads.
  virtual ask::Output& answers() = 0;
};

}  // namespace msitd::msitctl
