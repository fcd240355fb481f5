// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds the verb `match` to the noun `run`.
void AddMatchVerb(CommandLine& line, CLI::App& run);

}  // namespace msitd::msitctl
