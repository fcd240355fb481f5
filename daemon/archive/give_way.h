// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::archive {

// Lets others have the machine between the steps of a long work, as long as
// they have something to do. Niceness alone does not: the work takes the disk
// and the memory from them too. Thread-compatible.
class GiveWay {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // A step is followed by so many times its own time of rest.
    int rest_factor = 60;
    std::chrono::milliseconds rest_max{2000};
    // The others are idle once they were so often in a row, looked at with
    // these pauses.
    int idle_looks = 3;
    std::chrono::milliseconds pause{5};
  };

  // `is_busy` says whether the others have something to do.
  GiveWay(std::function<bool()> is_busy, const Options& options)
      : is_busy_(std::move(is_busy)), options_(options) {}

  // Called behind each step. Rests, at most until the others are idle.
  //
  // Errors: that of `stop`, which is asked meanwhile.
  absl::Status Rest(storage::StopCheck stop);

 private:
  const std::function<bool()> is_busy_;
  const Options options_;
  Clock::time_point begin_ = Clock::now();  // Of the step.
  bool was_busy_ = false;
};

}  // namespace msitd::archive
