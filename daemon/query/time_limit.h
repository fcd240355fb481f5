// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::query {

// A reduction or a histogram that takes longer fails. Unlike a list, it cannot
// be answered in part, and it must not occupy a thread indefinitely.
inline constexpr std::chrono::seconds kReductionTimeMax{60};

// A stop check that also fails after a time limit. Thread-safe if the wrapped
// stop check is.
class TimeLimit {
 public:
  // The time limit starts now. Borrows everything that `stop` borrows.
  TimeLimit(std::chrono::steady_clock::duration time_max,
            storage::StopCheck stop)
      : deadline_(std::chrono::steady_clock::now() + time_max), stop_(stop) {}

  // Errors: that of the stop check; DEADLINE_EXCEEDED with QUERY_TOO_LONG.
  absl::Status Check() const;

 private:
  const std::chrono::steady_clock::time_point deadline_;
  const storage::StopCheck stop_;
};

}  // namespace msitd::query
