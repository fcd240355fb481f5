// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace msitd::libmsit {

// A counter of the processor that increases at a constant rate, equally on all
// cores. Reading it takes a third of the time of reading a clock.
inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// The total time that threads of the host have spent in the code of a client.
// Thread-safe.
class RecordingTime {
 public:
  struct Times {
    uint64_t recording_ns = 0;
    // Since the object was created.
    uint64_t open_ns = 0;
  };

  // The time of the calling thread between Enter and the matching Leave is
  // counted. Pairs may nest, even those of different objects; the time is then
  // counted once, for the outermost pair.
  void Enter() {
    if (depth_++ == 0) entered_ = Ticks();
  }
  void Leave() {
    if (depth_ == 0 || --depth_ != 0) return;
    const uint64_t left = Ticks();
    if (left > entered_) {
      ticks_.fetch_add(left - entered_, std::memory_order_relaxed);
    }
  }

  // Differs from an earlier result if time was counted in between.
  uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }

  // The total so far, without calls in progress.
  Times Read() const;

 private:
  static inline thread_local uint32_t depth_ = 0;
  static inline thread_local uint64_t entered_ = 0;

  std::atomic<uint64_t> ticks_{0};
  const uint64_t first_ticks_ = Ticks();
  const std::chrono::steady_clock::time_point first_time_ =
      std::chrono::steady_clock::now();
};

// Counts the time of its own lifetime.
class RecordingScope {
 public:
  explicit RecordingScope(RecordingTime& time) : time_(time) { time_.Enter(); }
  ~RecordingScope() { time_.Leave(); }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  RecordingTime& time_;
};

}  // namespace msitd::libmsit
