// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace msitd::msit_command {

// The arguments of `msit llm analyze` and `msit llm bcanalyze`.
struct BadCaseOptions {
  std::string golden;
  std::string test;
};

// Finds answers of a model that changed from right to wrong, or vice versa,
// between two evaluations: rows of two CSV files that differ in their column
// `passed`. Runs bad_cases.py in `python3`, because pandas defines which cells
// are equal and which have no value. The program logs, and writes the rows
// below msit_bad_case/analyzer in the working directory.
//
// `verb` is "analyze" for files that are joined by queries, and "bcanalyze" for
// files that are joined by key. `log_level` is a word of ParseLogLevel. Returns
// the exit code of the program, which prints its own errors, or an error if
// `python3` cannot be started or is ended by a signal.
absl::StatusOr<int> FindBadCases(const std::string& verb,
                                 const BadCaseOptions& options,
                                 const std::string& log_level);

}  // namespace msitd::msit_command
