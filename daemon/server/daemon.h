// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config/daemon_config.h"
#include "daemon/server/node_server.h"
#include "storage/env/env.h"
#include "storage/store.h"

namespace msitd::server {

// The daemon from its start to its stop. Single-sequence: the main thread.
class Daemon {
 public:
  // Opens the store, which reads back what the index misses, then serves and
  // writes `endpoint`, one address per line, into the socket directory.
  //
  // With `recovers`, opens the store for reading only, through a temporary
  // index (storage/rebuild/recovered_store.h). Runs are not archived then.
  //
  // Errors: those of the store, the sockets and the TLS files.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const config::DaemonConfig& config, storage::Env& env, bool recovers);

  // Stops in the reverse order within `drain_timeout_ms`, and closes the store
  // behind the last call that could read it.
  //
  // Errors: DEADLINE_EXCEEDED if the store hangs: the caller ends the process
  // without destroying this. Nothing that was acknowledged is lost. Else those
  // of closing the store.
  absl::Status Stop();

  // Gives unused memory back to the system. `drops_buffers`: that of buffers
  // that are kept for later chunks, too.
  void GiveMemoryBack(bool drops_buffers);

  // Returns once the threads that every stream and query depends on answer.
  void Heartbeat();

  NodeServer& node() { return *node_; }

 private:
  explicit Daemon(const config::DaemonConfig& config) : config_(config) {}

  const config::DaemonConfig config_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<NodeServer> node_;
};

// Called once when the daemon serves, or with the error if it does not start.
using StartCallback = absl::AnyInvocable<void(const absl::Status&)>;

// Reads the configuration again: the same flags and files. Called on the main
// thread.
using ReadConfig = absl::AnyInvocable<absl::StatusOr<config::DaemonConfig>()>;

// Runs a daemon until SIGTERM or SIGINT, or until it is idle for `idle_exit_s`,
// and keeps the service manager informed. On SIGHUP, applies what Reloader can
// change of the configuration that `reread` returns. `recovers` is as in
// Daemon::Start. A second signal ends the process at once. Returns the exit
// code: 0, or 1 after a message in the log. Called once, before any thread
// exists.
int RunDaemon(const config::DaemonConfig& config, bool recovers,
              ReadConfig reread, StartCallback started = nullptr);

}  // namespace msitd::server
