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
  // Of files. Empty: the current folder.
  std::string output;
  // Names with commas between them. Empty: all ops.
  std::optional<std::string> ops;
  // In place of files. Empty: the one that the environment names.
  std::optional<std::string> run;
  std::optional<std::string> endpoint;
  // Flags for models of other frameworks that were given, by their long names.
  std::vector<std::string> of_models;
};

// Runs a program of MindIE Torch that dumps its tensors, as files or into a
// run, and returns its exit code. A run gets both mappings as attachments in
// place of the files that the program has written.
//
// Errors: UNIMPLEMENTED without a command; INVALID_ARGUMENT for a wrong one,
// and for flags that do not fit; FAILED_PRECONDITION without a toolkit or the
// library to preload; those of launch.h. If the mappings cannot be attached,
// they stay where they are, and that is an error unless the program failed.
absl::StatusOr<int> DumpMindie(const DebugDumpOptions& options, Logger& log);

}  // namespace msitd::msit_command
