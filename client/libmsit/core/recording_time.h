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
    Thread& thread = thread_;
    if (thread.depth++ == 0) thread.entered = Ticks();
  }
  // The time counts `times` times.
  void Leave(uint64_t times = 1) {
    Thread& thread = thread_;
    if (thread.depth == 0 || --thread.depth != 0) return;
    const uint64_t left = Ticks();
    if (left > thread.entered) {
      ticks_.fetch_add((left - thread.entered) * times,
                       std::memory_order_relaxed);
    }
  }

  // Differs from an earlier result if time was counted in between.
  uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }

  // The total so far, without calls in progress.
  Times Read() const;

 private:
  friend class ShortCallScope;

  struct Thread {
    uint32_t depth;
    // The state of a generator of random numbers; 0 before the first.
    uint32_t random;
    uint64_t entered;
  };
  static inline thread_local Thread thread_{};

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

// Counts the time of a call that mostly ends at once, so that measuring would
// take a good part of it: one of about kCallsPerSample calls is measured, and
// its time counts for all of them. Samples are random, because calls often have
// a period, such as that of the layers of a model.
class ShortCallScope {
 public:
  static constexpr uint32_t kCallsPerSample = 16;

  explicit ShortCallScope(RecordingTime& time)
      : time_(time), is_entered_(IsSample()) {
    if (is_entered_) time_.Enter();
  }
  ~ShortCallScope() {
    if (is_entered_) time_.Leave(times_);
  }
  ShortCallScope(const ShortCallScope&) = delete;
  ShortCallScope& operator=(const ShortCallScope&) = delete;

  // Must be called before the call takes longer or waits. Its time then counts
  // for itself only, from now on unless it is measured already.
  void Prolong() {
    times_ = 1;
    if (!is_entered_) time_.Enter();
    is_entered_ = true;
  }

 private:
  // A linear congruential generator, of which the upper bits are good.
  static bool IsSample() {
    static_assert(kCallsPerSample == 16);
    uint32_t& random = RecordingTime::thread_.random;
    if (random == 0) random = static_cast<uint32_t>(Ticks()) | 1;
    random = random * 1664525 + 1013904223;
    return random >> 28 == 0;
  }

  RecordingTime& time_;
  bool is_entered_;
  uint64_t times_ = kCallsPerSample;
};

}  // namespace msitd::libmsit
