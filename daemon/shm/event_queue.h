// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace msitd::shm {

// What other threads tell the thread of the sessions. Thread-safe.
class EventQueue {
 public:
  enum class Kind {
    kOpened,  // The task that opens the stream of a session has ended.
    kRoom,    // A session may offer chunks again.
    kEnded,   // The stream of a session is over.
    kStop,    // The server is to stop.
  };
  struct Event {
    uint64_t session = 0;
    Kind kind{};
  };

  EventQueue();

  // Wakes the thread. Whoever posts the last event of a session must not touch
  // the session afterwards.
  void Post(Event event);

  // Returns what was posted, in order.
  std::vector<Event> Take();

  // Readable while there is something to take.
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  Mutex mu_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::shm
