// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

// Files of one side that are kept open. A folder with more is rejected.
inline constexpr size_t kWeightFilesMax = 4096;

// Implements `msit llm compare --weight`: compares each weight of the folder
// `golden` whose name ends with `weight` with that of the folder `my`, if the
// latter is int8 and has an offset and a scale, and writes msit's report into
// `output`. One weight is in memory at a time. Files or weights that cannot be
// read or have no counterpart cause a warning; the last line counts all of
// them. Returns INVALID_ARGUMENT if a side is not a folder, and NOT_FOUND if it
// has no file with weights.
absl::Status CompareWeights(const std::string& golden, const std::string& my,
                            const std::string& output,
                            ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
