// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/msit/command/logger.h"

// Finds answers of a model that changed from right to wrong, or vice versa,
// between two evaluations: rows of two CSV files that differ in their column
// `passed`.
namespace msitd::msit_command {

// Implements `msit llm analyze`: files with the columns queries,
// input_token_ids, output_token_ids and passed, joined by queries. Writes the
// rows that differ to msit_bad_case/analyzer/<time>.csv below the working
// directory; nothing if there are none. Returns INVALID_ARGUMENT for a file
// without these columns.
absl::Status AnalyzeQueries(const std::string& golden, const std::string& test,
                            Logger& log);

// Implements `msit llm bcanalyze`: the same for files with the columns key and
// passed, joined by key, and by queries if the golden file has them. Writes
// msit_bad_case/analyzer/msit_bad_case_result_<time>.csv.
absl::Status AnalyzeKeys(const std::string& golden, const std::string& test,
                         Logger& log);

}  // namespace msitd::msit_command
