// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/ctl/command_line.h"

namespace msitd::ctl {

// The verb `match` of the noun `run`.
void AddMatchVerb(CommandLine& line, CLI::App& run);

}  // namespace msitd::ctl
