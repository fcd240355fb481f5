// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/daemon_config.h"

namespace msitd::config {

// The version of the program, such as "0.1.0".
std::string_view Version();

// What msitd was asked to do.
struct CommandLine {
  // To be printed instead of running: help, version or configuration.
  std::optional<std::string> text;
  DaemonConfig config;
  // True if the store is to be opened for reading only, through a temporary
  // index. This is not a key of the configuration, so that no file makes every
  // start one of these.
  bool recovers = false;
};

// Reads flags and the file that --config names; flags win. The result is
// validated.
//
// Errors: INVALID_ARGUMENT for whatever is wrong with flags, keys and values;
// those of reading the file.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace msitd::config
