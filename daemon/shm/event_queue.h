// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace msitd::shm {

// Events from other threads for the thread that serves the sessions.
// Thread-safe.
class EventQueue {
 public:
  enum class Kind {
    kOpened,  // The task that opens the session's stream ended.
    kRoom,    // The session may offer chunks again.
    kEnded,   // The stream of the session is over.
    kPolicy,  // The access policy was replaced.
    kStop,    // The server must stop.
  };
  struct Event {
    uint64_t session = 0;
    Kind kind{};
  };

  EventQueue();

  // Wakes the thread. A thread that posts the last event of a session must not
  // use the session afterwards.
  void Post(Event event);

  // Removes and returns all events, in the order in which they were posted.
  std::vector<Event> Take();

  // Readable while events are queued.
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  Mutex mu_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::shm
