// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "client/ask/query/private_daemon.h"
#include "client/msitctl/exec/exec_flags.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// The daemon into which a command is recorded. A private one ends with this
// object. Thread-compatible.
struct ExecDaemon {
  std::unique_ptr<ask::PrivateDaemon> daemon;  // Null unless private.
  std::unique_ptr<Invocation> own;
  // `own`, or the invocation of the caller.
  Invocation* connection = nullptr;
  std::string endpoint;
  // The endpoint for the clients of the command.
  std::string record_endpoint;
  // The store of a private daemon.
  std::string store;
  // Whether the store is removed with this object: it has no run.
  bool is_store_ours = false;

  ExecDaemon() = default;
  ExecDaemon(const ExecDaemon&) = delete;
  ExecDaemon& operator=(const ExecDaemon&) = delete;
  ~ExecDaemon();
};

// Finds or starts the daemon that the flags select. `run` names the store of a
// private one. `daemon` is as it was constructed. An outcome with an error has
// the exit code of exec.
ask::Outcome FindExecDaemon(Invocation& invocation, const ExecFlags& flags,
                            const std::string& run, ExecDaemon& daemon);

}  // namespace msitd::msitctl
