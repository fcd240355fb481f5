// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace msitd::server {

// The use of a daemon, which keeps it from ending.
struct Activity {
  // Streams, jobs and connections at this moment.
  bool is_busy = false;
  // Number of connections since the start. A connection that was opened and
  // closed between two checks counts as activity.
  uint64_t connection_count = 0;
};

// Ends a daemon that is not used.
//
// A client that finds the sockets must never be turned away by a daemon that is
// about to end. The sockets are therefore renamed first, so that new clients
// find none, and start a daemon, which waits until this one has ended (see
// personal.h). If a client has connected just before, the names are restored,
// and the daemon continues.
//
// Thread-compatible.
class IdleEnd {
 public:
  using Clock = std::chrono::steady_clock;

  // How long clients that found the sockets have to show up.
  static constexpr std::chrono::milliseconds kLastCall{200};

  // `idle_exit` of zero: never ends. `sockets` are the paths of the sockets
  // that this process created.
  IdleEnd(std::chrono::seconds idle_exit, std::vector<std::string> sockets);
  // Removes the renamed sockets.
  ~IdleEnd();
  IdleEnd(const IdleEnd&) = delete;
  IdleEnd& operator=(const IdleEnd&) = delete;

  // Returns whether the daemon has to end now: it was idle for long enough, or
  // it is idle and its sockets were removed, as at a logout. Waits for
  // kLastCall before it returns true. Does nothing if the last check was less
  // than the interval ago.
  bool Check(Clock::time_point now, absl::FunctionRef<Activity()> look);

 private:
  bool HasSockets() const;
  void Hide();
  void Restore();

  const Clock::duration idle_exit_;
  const Clock::duration interval_;
  const std::vector<std::string> sockets_;
  Clock::time_point next_check_;
  Clock::time_point last_activity_;
  uint64_t connection_count_ = 0;
  bool is_hidden_ = false;
};

}  // namespace msitd::server
