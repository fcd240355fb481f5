// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::archive {

// Yields the machine to other work between the steps of a long task, as long as
// the other work is busy. Niceness is not sufficient because the task also
// competes for the disk and the memory. Thread-compatible.
class GiveWay {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // After each step, rest for this many times the duration of the step.
    int rest_factor = 60;
    std::chrono::milliseconds rest_max{2000};
    // The other work counts as idle after this many consecutive idle checks,
    // with this pause between them.
    int idle_looks = 3;
    std::chrono::milliseconds pause{5};
  };

  // `is_busy` returns whether the other work is busy.
  GiveWay(std::function<bool()> is_busy, const Options& options)
      : is_busy_(std::move(is_busy)), options_(options) {}

  // Must be called after each step. Rests for a bounded time, but ends early
  // once the other work is idle.
  //
  // Errors: that of `stop`, which is called while resting.
  absl::Status Rest(storage::StopCheck stop);

 private:
  const std::function<bool()> is_busy_;
  const Options options_;
  Clock::time_point begin_ = Clock::now();  // Of the step.
  bool was_busy_ = false;
};

}  // namespace msitd::archive
