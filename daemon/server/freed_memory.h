// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace msitd::server {

// Decides when freed memory goes back to the system. As long as the daemon is
// at work a little is kept, since fresh pages cost more than a copy; what came
// of a burst goes at once, and the rest when there is hardly anything to do.
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
    kGiveBack,  // And what is only kept for work to come.
  };

  // Says what to do. Behind anything but kNone Trimmed() is called.
  Action Check(const Sample& sample);
  void Trimmed(uint64_t resident_bytes) { trimmed_bytes_ = resident_bytes; }

  static Sample Look();

 private:
  // What may come and go without more ado.
  static constexpr uint64_t kKeptBytesMax = uint64_t{48} << 20;
  // Less than this share of one processor is hardly anything...
  static constexpr double kIdleShare = 0.1;
  // ...if it lasts for as long.
  static constexpr std::chrono::seconds kIdleInterval{2};
  // Less work than this leaves nothing to give back.
  static constexpr std::chrono::milliseconds kWorkMin{20};

  uint64_t trimmed_bytes_ = 0;  // Resident behind the last trim.
  std::chrono::nanoseconds window_now_{0};
  std::chrono::nanoseconds window_cpu_{0};
  std::chrono::nanoseconds given_back_cpu_{0};
};

}  // namespace msitd::server
