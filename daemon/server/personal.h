// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/config/daemon_config.h"
#include "daemon/config/personal.h"

namespace msitd::server {

// Creates the socket folder of a personal daemon, which only its user can
// enter, or checks that an existing one belongs to the user.
//
// Errors: FAILED_PRECONDITION if it does not; those of the file system.
absl::Status MakePersonalSocketDir(const std::string& path);

// Starts the personal daemon of the user in the background, unless one runs.
// Returns after it accepts connections, and prints its endpoint. Returns the
// exit code: 0, or 1 after a message on stderr. Called once, before any thread
// exists.
//
// Processes that do this at the same time get one daemon: it holds a lock on a
// file next to its sockets for as long as it lives. The other processes wait
// for the sockets of the holder. If the holder is ending, its
// sockets are gone, and the lock becomes free when it has closed its store; one
// of the waiting processes then starts the next daemon. Sockets of a daemon
// that was killed do not matter, because the kernel has released its lock. The
// lock is next to the sockets, and not in the home folder, because locks do not
// work on all file systems that hold homes.
int StartPersonal(const config::DaemonConfig& config,
                  const config::PersonalFiles& files);

}  // namespace msitd::server
