// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "protos/os/thread.h"
#include "protos/status/mutex.h"

namespace msitd::upkeep {

// Runs steps one after another on a thread of its own, with a pause between
// them. Thread-safe.
class StepLoop {
 public:
  // Runs one step and returns how long to wait before the next one.
  using Step = std::function<std::chrono::nanoseconds()>;

  StepLoop() = default;
  ~StepLoop() { Stop(); }
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  // Starts immediately. Everything that `step` uses must remain valid until
  // Stop returns. May be called at most once.
  void Start(ThreadName thread_name, Step step);

  // Returns after the current step is finished. No further step starts.
  void Stop();

  // Returns whether Stop was called. Long steps should poll this.
  bool must_stop();

 private:
  void Loop(const Step& step);

  Mutex mu_;
  CondVar changed_;  // stop_ was set.
  bool stop_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Not joinable if Start was not called.
};

}  // namespace msitd::upkeep
