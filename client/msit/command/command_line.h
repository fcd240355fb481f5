// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::msit_command {

// True if the program was called as msit: the name behind the last slash.
bool IsMsit(const char* program);

// Runs the command `msit` of another toolkit with the same verbs, flags and
// files. Sets the umask to 027. Returns the exit code: 0 whenever it reports,
// 1 for an error, which is one line on stderr, 2 for a wrong command line, and
// 130 if it is interrupted.
int Run(int argc, char** argv);

}  // namespace msitd::msit_command
