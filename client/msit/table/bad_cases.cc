// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/bad_cases.h"

#include "client/msit/command/python_program.h"
#include "client/msit/table/bad_cases_script.h"
#include "protos/status/status.h"

namespace msitd::msit_command {

absl::StatusOr<int> FindBadCases(const std::string& verb,
                                 const BadCaseOptions& options,
                                 const std::string& log_level) {
  const auto exit_code = RunPythonProgram(
      BadCasesScript(), {verb, log_level, options.golden, options.test});
  // A program that was started and ended has pandas, or reports that.
  if (exit_code.ok() || absl::IsUnavailable(exit_code.status())) {
    return exit_code;
  }
  return Annotate(exit_code.status(), verb + " requires pandas");
}

}  // namespace msitd::msit_command
