// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace msitd::server {

// Decides when freed memory is returned to the system. While the daemon is
// active, some memory is kept, because fresh pages cost more than a copy.
// Memory left by a burst is returned immediately, and the rest when the daemon
// is idle. Thread-compatible.
class FreedMemory {
 public:
  // How often Check() should be called. Bounds how much memory a burst leaves.
  static constexpr std::chrono::milliseconds kInterval{50};

  // Resource usage of the process.
  struct Sample {
    std::chrono::nanoseconds now{0};
    std::chrono::nanoseconds cpu{0};  // Used so far, on all processors.
    uint64_t resident_bytes = 0;
  };

  enum class Action {
    kNone,
    kTrim,      // Return free memory.
    kGiveBack,  // Also return memory kept for later work.
  };

  // Returns the action to take. Unless it is kNone, the caller must perform it
  // and then call Trimmed().
  Action Check(const Sample& sample);
  void Trimmed(uint64_t resident_bytes) { trimmed_bytes_ = resident_bytes; }

  static Sample Look();

 private:
  // Growth since the last trim is tolerated up to this size.
  static constexpr uint64_t kKeptBytesMax = uint64_t{48} << 20;
  // The daemon is idle if it uses less than this share of one processor...
  static constexpr double kIdleShare = 0.1;
  // ...during this interval.
  static constexpr std::chrono::seconds kIdleInterval{2};
  // After less CPU time than this there is nothing to return.
  static constexpr std::chrono::milliseconds kWorkMin{20};

  uint64_t trimmed_bytes_ = 0;  // Resident size after the last trim.
  std::chrono::nanoseconds window_now_{0};
  std::chrono::nanoseconds window_cpu_{0};
  std::chrono::nanoseconds given_back_cpu_{0};
};

}  // namespace msitd::server
