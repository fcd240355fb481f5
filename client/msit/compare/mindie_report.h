// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct MindieOptions {
  // What msit dumped of the torch model: the folder of a token.
  std::string golden;
  // What MindIE dumped: `Graph`, the folder of its step, or one above.
  std::string my;
  // The folder with both mappings.
  std::string mapping_folder;
  std::string output;
  // Reports what msit reports: the first output of each op alone, and only
  // those of equal shapes.
  bool is_compat = false;
};

// `msit debug compare`: writes `comparison_results.csv` into the folder of the
// output, with a row for each pair. NOT_FOUND if a mapping is not there.
absl::Status CompareMindie(const MindieOptions& options,
                           ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
