// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/msit/command/logger.h"

// The components of msit that its installer supports. "all" stands for each of
// them.
namespace msitd::msit_command {

// Implements `msit check`: reports for each component whether this program has
// it, with the texts of the original.
void CheckComponents(const std::vector<std::string>& names, Logger& log);

// Implements `msit install`, `download` and `build-extra`: reports the same,
// and that nothing is downloaded.
void ReportComponents(const std::vector<std::string>& names, Logger& log);

}  // namespace msitd::msit_command
