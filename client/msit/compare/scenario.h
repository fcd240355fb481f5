// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"
#include "client/msit/pair/file_comparison.h"

namespace msitd::msit_command {

// Implements `msit llm compare`: determines from the paths what to compare, and
// compares it. Writes reports into `options.output`, or logs the metrics of two
// files. As in the original, succeeds with an error in the log if a folder is
// not recognised. Returns NOT_FOUND for a path that does not exist.
absl::Status CompareSides(const CompareOptions& options,
                          ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
