// SPDX-License-Identifier: Apache-2.0
#include "daemon/upkeep/step_loop.h"

#include <utility>

namespace msitd::upkeep {

void StepLoop::Start(ThreadName thread_name, Step step) {
  thread_ =
      StartThread(thread_name, [this, step = std::move(step)] { Loop(step); });
}

void StepLoop::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool StepLoop::must_stop() {
  MutexLock lock(mu_);
  return stop_;
}

void StepLoop::Loop(const Step& step) {
  while (true) {
    const std::chrono::nanoseconds wait = step();
    const auto due = std::chrono::steady_clock::now() + wait;
    MutexLock lock(mu_);
    while (!stop_ && changed_.WaitUntil(mu_, due)) {
    }
    if (stop_) return;
  }
}

}  // namespace msitd::upkeep
