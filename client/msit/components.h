// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/msit/logger.h"

namespace msitd::msit {

// What `msit install`, `download`, `check` and `build-extra` do here: says for
// each of these parts of msit whether this program has it. "all" stands for
// those that it has.
void ReportComponents(const std::vector<std::string>& names, Logger& log);

}  // namespace msitd::msit
