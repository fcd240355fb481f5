// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/lag.h"

#include <algorithm>
#include <cmath>

namespace msitd::watch {

void Lag::Add(std::chrono::milliseconds lag) {
  // The system clock may have been set back.
  lag = std::max(lag, std::chrono::milliseconds(0));
  const auto step = static_cast<size_t>((lag + kStep / 2) / kStep);
  ++counts_[std::min(step, kSteps)];
  ++count_;
  max_ = std::max(max_, lag);
}

std::chrono::milliseconds Lag::Quantile(double share) const {
  const auto wanted =
      static_cast<int64_t>(std::ceil(share * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t step = 0; step <= kSteps && count_ > 0; ++step) {
    seen += counts_[step];
    if (seen >= wanted) return std::min(kStep * static_cast<int>(step), max_);
  }
  return max_;
}

}  // namespace msitd::watch
