// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "daemon/ingest/step_loop.h"
#include "protos/status/mutex.h"
#include "storage/face/upkeep.h"

namespace msitd::ingest {

// Makes room in a store: has it give up what its policy does not keep, tidy up
// behind deleted runs, and share bytes that are equal, step by step, on a
// thread of its own.
// Thread-safe.
class RetentionLoop {
 public:
  struct Options {
    storage::RetentionPolicy policy;
    bool shares_equal_bytes = true;
    // How long it waits once nothing is left to do, or after an error.
    std::chrono::milliseconds interval{1000};
  };
  // Tidying and sharing are in no hurry: after a step of both the disk is left
  // alone for this many times as long as they took, but no longer than the
  // interval.
  static constexpr int kRestFactor = 2;

  // Begins at once. `store` outlives it.
  RetentionLoop(storage::Upkeep& store, const Options& options);
  RetentionLoop(const RetentionLoop&) = delete;
  RetentionLoop& operator=(const RetentionLoop&) = delete;

  // Returns once the step under way is done; there is no other after it.
  void Stop() { loop_.Stop(); }

  // The error of the last step; empty if it had none.
  std::string error();

 private:
  // Gives up what is due now, then tidies and shares for one step each. Returns
  // how long to wait.
  std::chrono::nanoseconds Work();
  // True once nothing is left to do.
  absl::StatusOr<bool> TidyAndShare();
  // False if it was told to stop before it was done.
  absl::StatusOr<bool> Retain();
  void SetError(const std::string& error);

  storage::Upkeep& store_;
  const Options options_;

  // Given back by sharing and not logged yet. Only its thread touches it.
  uint64_t shared_bytes_ = 0;

  Mutex mu_;
  std::string error_ ABSL_GUARDED_BY(mu_);

  // Behind all that its steps use.
  StepLoop loop_;
};

}  // namespace msitd::ingest
