// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/config/daemon_config.h"
#include "daemon/config/personal.h"

namespace msitd::config {

// The version of the program, such as "0.1.0".
std::string_view Version();

// The parsed command line of msitd.
struct CommandLine {
  // Text to print instead of running: help, version or configuration.
  std::optional<std::string> text;
  DaemonConfig config;
  // True if the store is to be opened for reading only, through a temporary
  // index. This is not a key of the configuration, so that no file makes every
  // start one of these.
  bool recovers = false;
  // Set if the personal daemon of the user is to be started in the background.
  std::optional<PersonalFiles> personal = {};
};

// Reads the flags and the file that --config names. Flags override the file.
// The result is validated.
//
// Errors: INVALID_ARGUMENT for invalid flags, keys and values; errors from
// reading the file.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace msitd::config
