// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daemon/config/daemon_config.h"

// Problems of a configuration that involve several keys or the system.
namespace msitd::config {

struct KeyProblem {
  std::string key;
  std::string text;
};

// Returns all problems that can be found without the system: addresses, the
// lengths of paths, and keys that require others.
std::vector<KeyProblem> FindProblems(const DaemonConfig& config);

// Returns the problems of files, directories, groups and environment variables
// that the configuration names, as the calling user finds them. A start fails
// with them, or the daemon lacks what they should provide. Reads no store and
// creates nothing.
std::vector<KeyProblem> FindSystemProblems(const DaemonConfig& config);

}  // namespace msitd::config
