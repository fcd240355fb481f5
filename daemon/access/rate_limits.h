// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "protos/status/mutex.h"

namespace msitd::access {

// Bounds how many calls each caller begins in a second. A caller that has been
// quiet may begin kBurstSeconds worth of them at once. Thread-safe.
class RateLimits {
 public:
  static constexpr int64_t kBurstSeconds = 2;
  // Callers that are remembered. One more, and those forgotten that have
  // nothing to be remembered for.
  static constexpr size_t kCallersMax = 4096;

  using Clock = std::chrono::steady_clock;

  // 0 is no bound.
  explicit RateLimits(int64_t calls_per_s) : calls_per_s_(calls_per_s) {}

  // Counts a call.
  //
  // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED).
  absl::Status Enter(std::string_view caller, Clock::time_point now);

 private:
  struct Bucket {
    double calls = 0;  // That may begin now.
    Clock::time_point time;
  };

  double Refilled(const Bucket& bucket, Clock::time_point now) const;
  void Forget(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t calls_per_s_;
  Mutex mu_;
  std::map<std::string, Bucket, std::less<>> buckets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::access
