// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"
#include "client/msit/compare/dump_side.h"

// `msit llm compare` for dumps that msit wrote of torch models and of the
// acceleration library.
namespace msitd::msit_command {

class CustomAlgorithms;

struct LevelOptions {
  DumpSide golden;
  DumpSide my;
  // layer, module or api (logits is api). Empty: all of them in one workbook.
  std::string level;
  // The bytes of an op_mapping_file.json, or empty.
  std::string op_mapping;
  std::string output;
  // Not null.
  CustomAlgorithms* algorithms = nullptr;
  // Compares the recorded statistics of tensors instead of tensors.
  bool compares_statistics = false;
  bool is_compat = false;
};

// Writes `msit_cmp_report_<time>.csv` for one level, or `.xlsx` with a sheet
// for each level. For statistics, writes `statstics_cmp_report_<time>.csv`
// without a level. As in the original, succeeds with an error in the log if the
// sides have no token in common.
absl::Status CompareLevels(const LevelOptions& options,
                           ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
