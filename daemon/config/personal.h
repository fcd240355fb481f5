// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/config/daemon_config.h"

// The configuration of a personal daemon, which clients start for their user.
namespace msitd::config {

// Where a personal daemon keeps its files.
struct PersonalFiles {
  std::string state_dir;  // Has the store and the log.
  // Configuration files, the first with the lowest precedence. Each may be
  // missing.
  std::vector<std::string> config_files;

  std::string store() const { return state_dir + "/store"; }
  std::string log() const { return state_dir + "/msitd.log"; }
};

// Returns the files in $XDG_STATE_HOME/msitd and $XDG_CONFIG_HOME/msitd, whose
// defaults are ~/.local/state and ~/.config, and those of the administrator.
//
// Errors: FAILED_PRECONDITION if the user has no home folder.
absl::StatusOr<PersonalFiles> FindPersonalFiles();

// Sets the defaults of a personal daemon: its folders, limits for the disk that
// it shares with the other files of its user, and its end when it is idle.
void SetPersonalDefaults(const PersonalFiles& files, DaemonConfig& config);

// Returns the socket folder for a daemon that a user starts without naming one:
// that of the service if this process may create sockets there, otherwise that
// of the personal daemon, where clients look next.
std::string DefaultSocketDir();

}  // namespace msitd::config
