// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/latencies.h"

#include <algorithm>

namespace msitd::metrics {

void Latencies::Add(std::chrono::nanoseconds duration) {
  const auto ns = std::max<int64_t>(duration.count(), 0);
  const double s = std::chrono::duration<double>(duration).count();
  const auto bound = std::lower_bound(kBoundsS.begin(), kBoundsS.end(), s);
  const auto bucket = static_cast<size_t>(bound - kBoundsS.begin());
  buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed);
}

Latencies::Snapshot Latencies::Read() const {
  constexpr double kNsPerS = 1e9;
  Snapshot out;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    out.count += buckets_[i].load(std::memory_order_relaxed);
    if (i < out.cumulative.size()) out.cumulative[i] = out.count;
  }
  const uint64_t sum_ns = sum_ns_.load(std::memory_order_relaxed);
  out.sum_s = static_cast<double>(sum_ns) / kNsPerS;
  return out;
}

}  // namespace msitd::metrics
