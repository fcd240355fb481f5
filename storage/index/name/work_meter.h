// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::storage {

// Work on the index is counted in units of about a look at one entry, some
// hundred nanoseconds; so many steps of a GlobMatch are one more.
inline constexpr uint64_t kGlobStepsPerUnit = 64;

// Counts units and asks a stop check now and then. Thread-compatible.
class WorkMeter {
 public:
  // Less than a tenth of a millisecond of work.
  static constexpr uint64_t kUnitsPerQuestion = 256;

  // Returns what `stop` says if it is time to ask.
  absl::Status Spend(uint64_t units, StopCheck stop) {
    spent_ += units;
    if (spent_ < kUnitsPerQuestion) return absl::OkStatus();
    spent_ = 0;
    return stop();
  }

 private:
  uint64_t spent_ = 0;  // Since the last question.
};

}  // namespace msitd::storage
