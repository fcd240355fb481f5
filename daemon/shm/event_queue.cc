// SPDX-License-Identifier: Apache-2.0
#include "daemon/shm/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "protos/base/check.h"

namespace msitd::shm {

EventQueue::EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MSITD_CHECK(fd_.valid());
}

void EventQueue::Post(Event event) {
  MutexLock lock(mu_);
  events_.push_back(event);
  const uint64_t one = 1;
  // A full counter still makes the descriptor readable, which is sufficient.
  (void)!::write(fd_.get(), &one, sizeof(one));
}

std::vector<EventQueue::Event> EventQueue::Take() {
  MutexLock lock(mu_);
  uint64_t ignored;
  (void)!::read(fd_.get(), &ignored, sizeof(ignored));
  return std::exchange(events_, {});
}

}  // namespace msitd::shm
