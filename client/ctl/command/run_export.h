// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "client/ctl/command_line.h"

namespace msitd::ctl {

// Adds `export` to the noun `run`.
void AddExportVerb(CommandLine& line, CLI::App& run);

}  // namespace msitd::ctl
