// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"
#include "client/msit/compare/dump_side.h"

// `msit llm compare` of what msit dumped of torch models and of the
// acceleration library.
namespace msitd::msit_command {

class CustomAlgorithms;

struct LevelOptions {
  DumpSide golden;
  DumpSide my;
  // layer, module or api (logits is api); empty: all of them in one workbook.
  std::string level;
  // The bytes of an op_mapping_file.json, or nothing.
  std::string op_mapping;
  std::string output;
  // Not null.
  CustomAlgorithms* algorithms = nullptr;
  // Compares what was recorded of tensors in place of tensors.
  bool compares_statistics = false;
  bool is_compat = false;
};

// Writes `msit_cmp_report_<time>.csv` for one level, or `.xlsx` with a sheet
// for each; of statistics `statstics_cmp_report_<time>.csv`, of no level. As
// the original, it succeeds with an error in the log if the sides have no token
// in common.
absl::Status CompareLevels(const LevelOptions& options,
                           ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
