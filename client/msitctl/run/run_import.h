// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// The verb `import` of the noun `run`.
void AddImport(CommandLine& line, CLI::App& run);

}  // namespace msitd::msitctl
