// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

// Files of one side that are kept open; a folder with more is refused.
inline constexpr size_t kWeightFilesMax = 4096;

// `msit llm compare --weight`: compares each weight of the folder `golden`
// whose name ends with `weight` with that of the folder `my`, if this is int8
// and has an offset and a scale, and writes msit's report into `output`. One
// weight is in memory at a time. A file or weight that cannot be read is a
// warning, and so is what has no counterpart; the last line counts all.
// INVALID_ARGUMENT if a side is no folder; NOT_FOUND if it has no file
// with weights.
absl::Status CompareWeights(const std::string& golden, const std::string& my,
                            const std::string& output,
                            ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
