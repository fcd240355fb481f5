// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/msit/command/logger.h"

// The parts of msit that its installer knows. "all" stands for each of them.
namespace msitd::msit_command {

// What `msit check` does: says of each of these whether this program has it, in
// the words of the original.
void CheckComponents(const std::vector<std::string>& names, Logger& log);

// What `msit install`, `download` and `build-extra` do here: the same, and that
// nothing is fetched.
void ReportComponents(const std::vector<std::string>& names, Logger& log);

}  // namespace msitd::msit_command
