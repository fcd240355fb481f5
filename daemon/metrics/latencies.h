// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace msitd::metrics {

// A histogram of durations, from which quantiles can be computed. Thread-safe;
// Add is lock-free.
class Latencies {
 public:
  // Upper bounds of the buckets, about three per decade, from the time of a
  // memory access to a time that no user waits for. Durations longer than the
  // last bound are counted outside these buckets.
  static constexpr std::array<double, 17> kBoundsS = {
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
      0.1,    0.25,    0.5,    1,     2.5,    5,     10,   60};

  void Add(std::chrono::nanoseconds duration);

  // Not an atomic snapshot: a duration that is added during Read may be
  // included in only some of the numbers. `count` is never less than any
  // bucket.
  struct Snapshot {
    // Number of durations less than or equal to the bound with the same index.
    std::array<uint64_t, kBoundsS.size()> cumulative = {};
    uint64_t count = 0;
    double sum_s = 0;
  };
  Snapshot Read() const;

 private:
  // The last bucket counts durations longer than all bounds. Buckets are not
  // cumulative.
  std::array<std::atomic<uint64_t>, kBoundsS.size() + 1> buckets_ = {};
  std::atomic<uint64_t> sum_ns_ = 0;
};

}  // namespace msitd::metrics
