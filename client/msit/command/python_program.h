// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::msit_command {

// Runs the text of a Python program in `python3`. The program prints its own
// log and errors. Its imports are not searched for in the working directory.
// Returns its exit code. Errors: UNAVAILABLE if a signal ended it; others if
// `python3` cannot be started. Must be called on the main thread.
absl::StatusOr<int> RunPythonProgram(const char* source,
                                     const std::vector<std::string>& arguments);

}  // namespace msitd::msit_command
