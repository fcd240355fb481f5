// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

// Returns the value of the variable BAD_CASE_LIST for the column `key` of a CSV
// file: a Python list with the numbers of the cases. For keys with a language
// (`CPP/3`), it has a list for each of CPP, Go, Java, JavaScript and Python;
// for `HumanEval/3`, the numbers. Returns INVALID_ARGUMENT for other keys and
// if there are none, or an error of ReadCsv.
absl::StatusOr<std::string> BadCaseList(const std::string& csv);

struct LogitsDumpOptions {
  std::string command;
  std::string bad_cases;  // A CSV file of `msit llm bcanalyze`.
  std::string tokens = "1";
};

// Implements `msit llm logitsdump`: runs `torchrun` or `modeltest` with the
// variables that make it save the logits of bad cases. Returns its exit code.
absl::StatusOr<int> DumpLogits(const LogitsDumpOptions& options, Logger& log);

}  // namespace msitd::msit_command
