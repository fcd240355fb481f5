// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "protos/status/mutex.h"

namespace msitd::access {

// Limits the number of calls per second for each caller. An idle caller may
// begin kBurstSeconds worth of calls at once. Thread-safe.
class RateLimits {
 public:
  static constexpr int64_t kBurstSeconds = 2;
  // Maximum number of callers with a bucket of their own. When it is reached,
  // callers whose bucket is full are forgotten.
  static constexpr size_t kCallersMax = 4096;

  using Clock = std::chrono::steady_clock;

  // 0: unlimited.
  explicit RateLimits(int64_t calls_per_s) : calls_per_s_(calls_per_s) {}

  // Replaces the limit. A caller's next call is counted by it.
  void SetLimit(int64_t calls_per_s) { calls_per_s_ = calls_per_s; }

  // Counts a call.
  //
  // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED).
  absl::Status Enter(std::string_view caller, Clock::time_point now);

 private:
  struct Bucket {
    double calls = 0;  // Calls that may begin now.
    Clock::time_point time;
  };

  double Refilled(const Bucket& bucket, Clock::time_point now) const;
  void Forget(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<int64_t> calls_per_s_;
  Mutex mu_;
  std::map<std::string, Bucket, std::less<>> buckets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::access
