// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace msitd::metrics {

// Counts durations by size, from which quantiles follow. Thread-safe; adding
// takes no lock.
class Latencies {
 public:
  // Upper bounds of the buckets; what is longer than the last is in none. Three
  // a decade, from what memory takes to what nobody waits for.
  static constexpr std::array<double, 17> kBoundsS = {
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
      0.1,    0.25,    0.5,    1,     2.5,    5,     10,   60};

  void Add(std::chrono::nanoseconds duration);

  // Not of one moment: durations that are added meanwhile may be in some of the
  // numbers only. `count` is never below a bucket.
  struct Snapshot {
    // How many were at most as long as the bound of the same place.
    std::array<uint64_t, kBoundsS.size()> cumulative = {};
    uint64_t count = 0;
    double sum_s = 0;
  };
  Snapshot Read() const;

 private:
  // The last one is for what is longer than all bounds. Each stands alone.
  std::array<std::atomic<uint64_t>, kBoundsS.size() + 1> buckets_ = {};
  std::atomic<uint64_t> sum_ns_ = 0;
};

}  // namespace msitd::metrics
