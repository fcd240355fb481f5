// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>

#include "absl/status/statusor.h"

namespace msitd::ask {

struct SeenSignals;

// A process of the group of this one that notes each SIGINT and SIGQUIT that it
// gets. The system tells no receiver whether a signal was sent to it alone or
// to its group; what this one got as well was sent to the group. It ends with
// this object, and with the thread that made it. Thread-compatible.
class GroupWitness {
 public:
  // UNAVAILABLE or the error of the system if there can be no process.
  static absl::StatusOr<GroupWitness> Start();

  GroupWitness(GroupWitness&& other) noexcept;
  GroupWitness& operator=(GroupWitness&&) = delete;
  ~GroupWitness();

  // Whether the witness got `signal` at most kGroupWait ago, or gets it within
  // that time. A handler of signals may ask.
  bool HasSeen(int signal) const;

  // What the parts of one signal to a group are apart at most.
  static constexpr std::chrono::milliseconds kGroupWait{100};

 private:
  GroupWitness(pid_t pid, SeenSignals* seen) : pid_(pid), seen_(seen) {}

  pid_t pid_;
  SeenSignals* seen_;
};

}  // namespace msitd::ask
