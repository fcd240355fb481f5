// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"
#include "client/msit/pair/file_comparison.h"

namespace msitd::msit_command {

// `msit llm compare`: finds out by the paths what there is to compare, and
// compares it. Writes reports into `options.output`, or logs the metrics of two
// files. As the original, it succeeds with an error in the log if a folder is
// not recognised. NOT_FOUND for a path that is not there.
absl::Status CompareSides(const CompareOptions& options,
                          ask::Interrupts& interrupts, Logger& log);

}  // namespace msitd::msit_command
