// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::query {

// A reduction or a histogram that takes longer ends with an error: it cannot
// be answered in part, as a list can, and must not keep a thread for ever.
inline constexpr std::chrono::seconds kReductionTimeMax{60};

// A stop check that also fails once a time has passed. Thread-safe if the stop
// check that it is made of is.
class TimeLimit {
 public:
  // The time begins now. Borrows what `stop` borrows.
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
