// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

// Returns what the variable BAD_CASE_LIST says of the column `key` of a CSV
// file: a list of Python with the numbers of the cases; for keys with a
// language (`CPP/3`) a list of them for each of CPP, Go, Java, JavaScript and
// Python; for `HumanEval/3` the numbers. INVALID_ARGUMENT for other keys and
// for none; the errors of ReadCsv.
absl::StatusOr<std::string> BadCaseList(const std::string& csv);

struct LogitsDumpOptions {
  std::string command;
  std::string bad_cases;  // A CSV file of `msit llm bcanalyze`.
  std::string tokens = "1";
};

// `msit llm logitsdump`: runs `torchrun` or `modeltest` with the variables that
// make it save the logits of bad cases. Returns its exit code.
absl::StatusOr<int> DumpLogits(const LogitsDumpOptions& options, Logger& log);

}  // namespace msitd::msit_command
