// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds the verb `stats` to the noun `compare`.
void AddRowStatsVerb(CommandLine& line, CLI::App& compare);

}  // namespace msitd::msitctl
