// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/rate_limits.h"

#include <algorithm>

#include "protos/status/status.h"

namespace msitd::access {

double RateLimits::Refilled(const Bucket& bucket, Clock::time_point now) const {
  const std::chrono::duration<double> time = now - bucket.time;
  const auto rate = static_cast<double>(calls_per_s_.load());
  return std::min(bucket.calls + time.count() * rate, kBurstSeconds * rate);
}

void RateLimits::Forget(Clock::time_point now) {
  const auto full = static_cast<double>(kBurstSeconds * calls_per_s_);
  std::erase_if(buckets_, [&](const auto& each) {
    return Refilled(each.second, now) >= full;
  });
}

absl::Status RateLimits::Enter(std::string_view caller, Clock::time_point now) {
  if (calls_per_s_ == 0) return absl::OkStatus();
  MutexLock lock(mu_);
  auto it = buckets_.find(caller);
  if (it == buckets_.end()) {
    if (buckets_.size() >= kCallersMax) Forget(now);
    const auto full = static_cast<double>(kBurstSeconds * calls_per_s_);
    // While too many callers are active, the remaining ones share one bucket.
    const std::string_view name =
        buckets_.size() < kCallersMax ? caller : "others";
    it = buckets_.try_emplace(std::string(name), Bucket{full, now}).first;
  }
  Bucket& bucket = it->second;
  bucket = {Refilled(bucket, now), now};
  if (bucket.calls >= 1) {
    bucket.calls -= 1;
    return absl::OkStatus();
  }
  return WithReason(
      MakeStatus(absl::StatusCode::kResourceExhausted,
                 "{} calls too often: {} calls a second are taken of each "
                 "caller (caller_calls_per_s)",
                 caller, calls_per_s_.load()),
      ErrorReason::kRequestsExhausted);
}

}  // namespace msitd::access
