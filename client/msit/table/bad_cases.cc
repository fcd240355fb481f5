// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/bad_cases.h"

#include <cstring>

#include "client/ask/query/child_command.h"
#include "client/ask/query/exit_code.h"
#include "client/msit/table/bad_cases_script.h"
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

absl::StatusOr<int> FindBadCases(const std::string& verb,
                                 const BadCaseOptions& options,
                                 const std::string& log_level) {
  const auto exit_code = ask::RunCommand(
      {kPython, "-X", "utf8", "-W", "ignore", "-c", kStart, BadCasesScript(),
       verb, log_level, options.golden, options.test},
      {});
  if (!exit_code.ok()) {
    return Annotate(exit_code.status(), verb + " requires pandas");
  }
  if (*exit_code > kSignalBase && *exit_code != ask::kExitInterrupted) {
    return MakeStatus(absl::StatusCode::kUnavailable, "{} was ended by: {}",
                      kPython, strsignal(*exit_code - kSignalBase));
  }
  return *exit_code;
}

}  // namespace msitd::msit_command
