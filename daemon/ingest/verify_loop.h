// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "daemon/ingest/step_loop.h"
#include "protos/status/mutex.h"
#include "storage/face/upkeep.h"

namespace msitd::ingest {

// Has a store read its bytes again and check them, step by step, no faster than
// it was told, on a thread of its own. Thread-safe.
class VerifyLoop {
 public:
  struct Options {
    // 0: nothing is checked.
    uint64_t bytes_per_s = 0;
    // From the end of a round to the begin of the next.
    std::chrono::nanoseconds interval{0};
    // How long it waits while no round is under way, or after an error.
    std::chrono::milliseconds rest{1000};
  };
  // What one step reads at most: small, because retention waits for it.
  static constexpr uint64_t kStepBytesMax = uint64_t{2} << 20;

  // Begins at once. `store` outlives it.
  VerifyLoop(storage::Upkeep& store, const Options& options);
  VerifyLoop(const VerifyLoop&) = delete;
  VerifyLoop& operator=(const VerifyLoop&) = delete;

  // Returns once the step under way is done; there is no other after it.
  void Stop() { loop_.Stop(); }

  // The error of the last step; empty if it had none.
  std::string error();

 private:
  // Does one step and returns how long to wait.
  std::chrono::nanoseconds Work();

  storage::Upkeep& store_;
  const Options options_;

  Mutex mu_;
  std::string error_ ABSL_GUARDED_BY(mu_);

  // Behind all that its steps use. Not started if nothing is checked.
  StepLoop loop_;
};

}  // namespace msitd::ingest
