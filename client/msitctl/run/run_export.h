// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds `export` to the noun `run`.
void AddExportVerb(CommandLine& line, CLI::App& run);

}  // namespace msitd::msitctl
