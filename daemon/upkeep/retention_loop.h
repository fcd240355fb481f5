// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "daemon/upkeep/step_loop.h"
#include "protos/status/mutex.h"
#include "storage/face/upkeep.h"

namespace msitd::upkeep {

// Frees space in a store, step by step, on a thread of its own: removes the
// bytes that the retention policy does not keep, reclaims the space of deleted
// runs, and shares equal bytes. Thread-safe.
class RetentionLoop {
 public:
  struct Options {
    storage::RetentionPolicy policy;
    bool shares_equal_bytes = true;
    // How long to wait when there is nothing left to do, or after an error.
    std::chrono::milliseconds interval{1000};
  };
  // Tidying and sharing are not urgent. After a step of both, the disk is left
  // idle for this many times the duration of the step, but not longer than the
  // interval.
  static constexpr int kRestFactor = 2;

  // Starts immediately. `store` must outlive the loop.
  RetentionLoop(storage::Upkeep& store, const Options& options);
  RetentionLoop(const RetentionLoop&) = delete;
  RetentionLoop& operator=(const RetentionLoop&) = delete;

  // Returns after the current step is finished. No further step starts.
  void Stop() { loop_.Stop(); }

  // Replaces the options, from the next step on.
  void SetOptions(const Options& options);

  // Returns the error of the last step; empty if it succeeded.
  std::string error();

 private:
  // Removes everything that is due, then does one step each of tidying and
  // sharing. Returns how long to wait.
  std::chrono::nanoseconds Work();
  // Returns true when nothing is left to do.
  absl::StatusOr<bool> TidyAndShare();
  // Returns false if Stop was called before all work was done.
  absl::StatusOr<bool> Retain();
  Options CurrentOptions();
  void SetError(const std::string& error);

  storage::Upkeep& store_;
  // Bytes freed by sharing that were not logged yet. Accessed only by the
  // thread.
  uint64_t shared_bytes_ = 0;

  Mutex mu_;
  std::string error_ ABSL_GUARDED_BY(mu_);
  Options options_ ABSL_GUARDED_BY(mu_);

  // Declared last, so that it stops before the members that its steps use are
  // destroyed.
  StepLoop loop_;
};

}  // namespace msitd::upkeep
