// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct MindieOptions {
  // The dump that msit wrote of the torch model: the folder of a token.
  std::string golden;
  // The dump of MindIE: `Graph`, the folder of its step, or one above it.
  std::string my;
  // The folder with both mappings.
  std::string mapping_folder;
  std::string output;
  // A model that the original would run. Not used.
  std::string model;
  // Reproduces the report of msit: only the first output of each op, and only
  // those of equal shapes.
  bool is_compat = false;
};

// Implements `msit debug compare`: writes `comparison_results.csv` into the
// output folder, with a row for each pair. Returns NOT_FOUND if a mapping is
// missing.
absl::Status CompareMindie(const MindieOptions& options,
                           ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
