// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/daemon_config.h"
#include "daemon/server/daemon.h"
#include "daemon/server/node_server.h"

namespace msitd::server {

// A changed configuration, divided into the part that a running daemon can take
// over and the part that requires a restart.
struct ConfigChange {
  config::DaemonConfig config;  // The current one with the first part.
  std::vector<std::string> applied;
  std::vector<std::string> kept;
};

// Returns whether a running daemon can take over a new value of the key.
bool IsReloadable(std::string_view key);

ConfigChange ChangeOf(const config::DaemonConfig& current,
                      const config::DaemonConfig& next);

// Reloads the configuration of a daemon that runs: the keys that IsReloadable
// returns true for, and the contents of the TLS files. Logs what has changed,
// and what requires a restart. A configuration with a problem changes nothing,
// and neither does one that would need a restart to be valid.
// Thread-compatible.
class Reloader {
 public:
  // `reread` may be null: then only the TLS files are read again.
  Reloader(config::DaemonConfig config, ReadConfig reread);

  void Reload(NodeServer& node);

 private:
  config::DaemonConfig config_;  // In force.
  ReadConfig reread_;
};

}  // namespace msitd::server
