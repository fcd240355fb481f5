// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "protos/endpoint/endpoint_rule.h"

// The personal daemon: one daemon for each user, which clients start when they
// need it and which ends when it is idle.
//
// A client runs `msitd --personal`, which returns once a daemon of the user
// accepts connections. All that could go wrong between two clients that start
// one at the same time is handled there, in one program
// (daemon/server/personal.h), so that clients in any language only have to run
// a command.
namespace msitd::endpoint {

// Whether a daemon may be started.
enum class Start {
  // Yes, unless MSITD_START forbids it, the user is root, or the process is
  // part of a service. For these two, MSITD_START has to allow it.
  kAuto,
  // Yes, unless MSITD_START forbids it, because the user has named the personal
  // daemon.
  kNamed,
  kYes,
  kNo,
};

// Returns why no daemon may be started, for the user; "" if one may be.
//
// A process counts as part of a service if systemd started it as the main
// process of a unit (SYSTEMD_EXEC_PID) or its stderr is connected to the
// journal (JOURNAL_STREAM). INVOCATION_ID is not used, because desktops
// pass it on to terminals.
std::string WhyNotStart(Start start, const Surroundings& around);

// Checks that only its owner, who is `uid`, can write the folder, so that the
// sockets in it belong to a daemon of this user. Returns the problem for the
// user; "" if there is none or the folder does not exist.
std::string CheckSocketDir(const std::string& socket_dir, uid_t uid);

// Returns whether a process accepts connections at the socket for queries.
bool IsListening(const std::string& socket_dir);

struct StartOptions {
  Start start = Start::kAuto;
  // The path of msitd. Empty: next to this program, otherwise in PATH.
  std::string program;
  // How long to wait for the daemon to accept connections.
  std::chrono::milliseconds timeout{60'000};
  // Called regularly while waiting. If it returns true, the wait ends.
  std::function<bool()> is_interrupted;
};

struct Started {
  bool is_ready = false;
  // Why there is no daemon, for the user. If it is empty and the daemon is not
  // ready, the daemon is still starting.
  std::string problem;
};

// Returns once the personal daemon accepts connections in `socket_dir`, which
// is the result of PersonalSocketDir. Starts it if necessary. Thread-safe.
Started EnsurePersonalDaemon(const std::string& socket_dir,
                             const StartOptions& options,
                             const Surroundings& around);

}  // namespace msitd::endpoint
