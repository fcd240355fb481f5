// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {

// Adds `compare judge`, which has the daemon judge the stored rows of a
// comparison by another policy, and prints the result as `compare run` does.
void AddJudgeVerb(CommandLine& line, CLI::App& noun);

}  // namespace msitd::msitctl
