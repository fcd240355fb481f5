// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds the verb `import` to the noun `run`.
void AddImport(CommandLine& line, CLI::App& run);

}  // namespace msitd::msitctl
