// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace msitd::server {

// Decides when freed memory goes back to the system. While the daemon works, a
// little is kept, because fresh pages cost more than a copy. What a burst
// leaves goes back at once, and the rest when the daemon is idle.
// Thread-compatible.
class FreedMemory {
 public:
  // How often Check() is to be called: bounds what a burst leaves behind.
  static constexpr std::chrono::milliseconds kInterval{50};

  // What the process looks like.
  struct Sample {
    std::chrono::nanoseconds now{0};
    std::chrono::nanoseconds cpu{0};  // Used of all processors so far.
    uint64_t resident_bytes = 0;
  };

  enum class Action {
    kNone,
    kTrim,      // Give back what is free.
    kGiveBack,  // And also what is kept for later work.
  };

  // Says what to do. If that is not kNone, the caller does it and then calls
  // Trimmed().
  Action Check(const Sample& sample);
  void Trimmed(uint64_t resident_bytes) { trimmed_bytes_ = resident_bytes; }

  static Sample Look();

 private:
  // Memory beyond that of the last trim is left alone up to this.
  static constexpr uint64_t kKeptBytesMax = uint64_t{48} << 20;
  // The daemon is idle if it uses less than this share of one processor...
  static constexpr double kIdleShare = 0.1;
  // ...for as long as this.
  static constexpr std::chrono::seconds kIdleInterval{2};
  // Less processor time than this leaves nothing to give back.
  static constexpr std::chrono::milliseconds kWorkMin{20};

  uint64_t trimmed_bytes_ = 0;  // Resident after the last trim.
  std::chrono::nanoseconds window_now_{0};
  std::chrono::nanoseconds window_cpu_{0};
  std::chrono::nanoseconds given_back_cpu_{0};
};

}  // namespace msitd::server
