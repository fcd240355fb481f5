// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/python_program.h"

#include <cstring>

#include "client/ask/query/child_command.h"
#include "client/ask/query/exit_code.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kPython[] = "python3";

// Runs the program in the first argument. Its imports are not searched for in
// the working directory, which may contain anything.
constexpr char kStart[] =
    "import sys; sys.path = [p for p in sys.path if p]; exec(sys.argv.pop(1))";

constexpr int kSignalBase = 128;

}  // namespace

absl::StatusOr<int> RunPythonProgram(
    const char* source, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {kPython,  "-X", "utf8", "-W",
                                    "ignore", "-c", kStart, source};
  words.insert(words.end(), arguments.begin(), arguments.end());
  MSITD_ASSIGN_OR_RETURN(const int exit_code, ask::RunCommand(words, {}));
  if (exit_code > kSignalBase && exit_code != ask::kExitInterrupted) {
    return MakeStatus(absl::StatusCode::kUnavailable, "{} was ended by: {}",
                      kPython, strsignal(exit_code - kSignalBase));
  }
  return exit_code;
}

}  // namespace msitd::msit_command
