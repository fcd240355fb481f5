// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds `origin`, which finds where a condition began in a run.
void AddOriginVerb(CommandLine& line, CLI::App& noun);

}  // namespace msitd::msitctl
