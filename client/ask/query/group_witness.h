// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>

#include "absl/status/statusor.h"

namespace msitd::ask {

struct SeenSignals;

// A process in the group of this process that records each SIGINT and SIGQUIT
// it receives. The system does not report whether a signal was sent to a
// process or to its group. A signal that the witness also received was sent to
// the group. The witness ends with this object, and with the thread that
// created it. Thread-compatible.
class GroupWitness {
 public:
  // Returns UNAVAILABLE or a system error if the process cannot be created.
  static absl::StatusOr<GroupWitness> Start();

  GroupWitness(GroupWitness&& other) noexcept;
  GroupWitness& operator=(GroupWitness&&) = delete;
  ~GroupWitness();

  // Returns whether the witness received `signal` at most kGroupWait ago, or
  // receives it within that time. May be called in a signal handler.
  bool HasSeen(int signal) const;

  // The longest time between the deliveries of one signal to the members of a
  // group.
  static constexpr std::chrono::milliseconds kGroupWait{100};

 private:
  GroupWitness(pid_t pid, SeenSignals* seen) : pid_(pid), seen_(seen) {}

  pid_t pid_;
  SeenSignals* seen_;
};

}  // namespace msitd::ask
