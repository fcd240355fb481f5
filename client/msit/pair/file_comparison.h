// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct CompareOptions {
  std::string golden;
  std::string my;
  std::vector<std::string> algorithms;  // FILE.py:FUNCTION each.
  bool compares_weights = false;
  std::string output = "./";
  // These have no effect on two files.
  std::string level;
  std::string mapping_folder;
  std::string rank;
  bool compares_statistics = false;
  // Reproduces the report of the original with its mistakes.
  bool is_compat = false;
};

// Implements `msit llm compare` for two files with one tensor each: logs the
// metrics as a Python dictionary.
absl::Status CompareFiles(const CompareOptions& options,
                          ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
