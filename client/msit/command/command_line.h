// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::msit_command {

// Returns true if the program was called as msit: the name after the last
// slash.
bool IsMsit(const char* program);

// Runs the command `msit` of another toolkit with the same verbs, flags and
// files. Sets the umask to 027. Returns the exit code: 0 whenever it reports, 1
// for an error, which is printed as one line on stderr, 2 for an invalid
// command line, and 130 if it is interrupted.
int Run(int argc, char** argv);

}  // namespace msitd::msit_command
