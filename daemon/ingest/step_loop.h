// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "protos/os/thread.h"
#include "protos/status/mutex.h"

namespace msitd::ingest {

// Does one step after the other on a thread of its own, and waits in between.
// Thread-safe.
class StepLoop {
 public:
  // Does a step and returns how long to wait before the next.
  using Step = std::function<std::chrono::nanoseconds()>;

  StepLoop() = default;
  ~StepLoop() { Stop(); }
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  // Begins at once. What `step` uses outlives Stop. Called once at most.
  void Start(ThreadName thread_name, Step step);

  // Returns once the step under way is done; there is no other after it.
  void Stop();

  // True once Stop was called. For steps that take long.
  bool must_stop();

 private:
  void Loop(const Step& step);

  Mutex mu_;
  CondVar changed_;  // stop_ was set.
  bool stop_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Not joinable if it was never started.
};

}  // namespace msitd::ingest
