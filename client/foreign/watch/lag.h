// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace msitd::watch {

// The time from the last change of each file until the daemon had it, with a
// resolution of 10 ms. Thread-compatible.
class Lag {
 public:
  static constexpr std::chrono::milliseconds kStep{10};
  // Longer times are counted as a minute.
  static constexpr size_t kSteps = 6000;

  void Add(std::chrono::milliseconds lag);
  // Returns the time that `share` of the files did not exceed; 0 if there are
  // none.
  std::chrono::milliseconds Quantile(double share) const;
  std::chrono::milliseconds max() const { return max_; }
  int64_t count() const { return count_; }

 private:
  std::array<int64_t, kSteps + 1> counts_ = {};
  int64_t count_ = 0;
  std::chrono::milliseconds max_{0};
};

}  // namespace msitd::watch
