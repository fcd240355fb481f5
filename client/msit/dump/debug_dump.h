// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct DebugDumpOptions {
  std::optional<std::string> command;
  // The folder of the files. Empty: the current folder.
  std::string output;
  // Names separated by commas. Empty: all ops.
  std::optional<std::string> ops;
  // Records into a run instead of files. Empty: the run in the environment.
  std::optional<std::string> run;
  std::optional<std::string> endpoint;
  // Whether the daemon of the user must not be started for this.
  bool no_start = false;
  // Flags for models of other frameworks that were given, by their long names.
  std::vector<std::string> of_models;
};

// Runs a program of MindIE Torch that dumps its tensors, as files or into a
// run, and returns its exit code. A run gets both mappings as attachments,
// which replace the files that the program has written.
//
// Errors: UNIMPLEMENTED without a command; INVALID_ARGUMENT for an invalid
// command and for conflicting flags; FAILED_PRECONDITION without a toolkit or
// the library to preload; those of launch.h. If the mappings cannot be
// attached, they stay where they are, and this is an error unless the program
// failed.
absl::StatusOr<int> DumpMindie(const DebugDumpOptions& options, Logger& log);

}  // namespace msitd::msit_command
