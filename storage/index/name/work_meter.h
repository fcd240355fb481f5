// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Work on the index is counted in units of about the cost of reading an entry,
// some hundred nanoseconds. This many steps of GlobMatch count as one unit.
inline constexpr uint64_t kGlobStepsPerUnit = 64;

// Counts units and calls a stop check every kUnitsPerQuestion.
// Thread-compatible.
class WorkMeter {
 public:
  // Less than a tenth of a millisecond of work.
  static constexpr uint64_t kUnitsPerQuestion = 256;

  // Adds `units`. If a check is due, calls `stop` and returns its result.
  absl::Status Spend(uint64_t units, StopCheck stop) {
    spent_ += units;
    if (spent_ < kUnitsPerQuestion) return absl::OkStatus();
    spent_ = 0;
    return stop();
  }

 private:
  uint64_t spent_ = 0;  // Units since the last check.
};

}  // namespace msitd::storage
