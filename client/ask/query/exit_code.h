// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>

// Exit codes of the process. Scripts rely on these numbers.
namespace msitd::ask {

inline constexpr int kExitOk = 0;
// A comparison failed its policy, or compared nothing; a capture stored
// nothing.
inline constexpr int kExitPolicyFailed = 1;
inline constexpr int kExitUsage = 2;
// A local file, stdout or the terminal failed.
inline constexpr int kExitLocal = 3;
// The answer covers only some ranks of a run. A proven failure takes
// precedence: kExitPolicyFailed. An import left something out.
inline constexpr int kExitPartial = 4;
// `exec` failed itself, or its command cannot be run, or is not there. All
// other codes of it are those of the command.
inline constexpr int kExitExecFailed = 125;
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitCommandNotFound = 127;
// The daemon answered gRPC code N: this plus N.
inline constexpr int kExitDaemonBase = 64;
inline constexpr int kExitInterrupted = 130;

int ExitCodeOf(grpc::StatusCode code);

// Returns the canonical name, such as "NOT_FOUND"; "UNKNOWN" for a number that
// is not a code.
const char* CodeName(grpc::StatusCode code);

// Returns all exit codes with their meaning, one per line.
std::string ExitCodeHelp();

}  // namespace msitd::ask
