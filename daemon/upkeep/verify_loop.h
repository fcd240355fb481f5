// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "daemon/upkeep/step_loop.h"
#include "protos/status/mutex.h"
#include "storage/face/upkeep.h"

namespace msitd::upkeep {

// Makes a store read and check its bytes again, step by step at a limited rate,
// on a thread of its own. Thread-safe.
class VerifyLoop {
 public:
  struct Options {
    // 0: checks nothing.
    uint64_t bytes_per_s = 0;
    // From the end of a round to the start of the next one.
    std::chrono::nanoseconds interval{0};
    // How long to wait while no round is in progress, or after an error.
    std::chrono::milliseconds rest{1000};
  };
  // Maximum number of bytes that a step reads. Small, because retention waits
  // for the step.
  static constexpr uint64_t kStepBytesMax = uint64_t{2} << 20;

  // Starts immediately. `store` must outlive the loop.
  VerifyLoop(storage::Upkeep& store, const Options& options);
  VerifyLoop(const VerifyLoop&) = delete;
  VerifyLoop& operator=(const VerifyLoop&) = delete;

  // Returns after the current step is finished. No further step starts.
  void Stop() { loop_.Stop(); }

  // Replaces the options, from the next step on.
  void SetOptions(const Options& options);

  // Returns the error of the last step; empty if it succeeded.
  std::string error();

 private:
  // Runs one step and returns how long to wait.
  std::chrono::nanoseconds Work();

  storage::Upkeep& store_;

  Mutex mu_;
  Options options_ ABSL_GUARDED_BY(mu_);
  std::string error_ ABSL_GUARDED_BY(mu_);

  // Declared last, so that it stops before the members that its steps use are
  // destroyed.
  StepLoop loop_;
};

}  // namespace msitd::upkeep
