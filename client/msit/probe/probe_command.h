// SPDX-License-Identifier: Apache-2.0
#pragma once

// The command msprobe, which is msitctl called by that name. docs/msprobe.md is
// its manual.
namespace msitd::msit_command {

// Returns true if `program`, a path as in argv[0], is called msprobe. May be
// null.
bool IsMsprobe(const char* program);

// Runs the command line. Returns the exit code.
int RunMsprobe(int argc, char** argv);

}  // namespace msitd::msit_command
