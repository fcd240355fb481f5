// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ctl/command_line.h"

namespace msitd::ctl {

// The verb `import` of the noun `run`.
void AddImport(CommandLine& line, CLI::App& run);

}  // namespace msitd::ctl
