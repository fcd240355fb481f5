// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace msitd::watch {

// How long files waited, from their last change until the daemon had them, to
// 10 ms. Thread-compatible.
class Lag {
 public:
  static constexpr std::chrono::milliseconds kStep{10};
  // What takes longer counts as so long: a minute.
  static constexpr size_t kSteps = 6000;

  void Add(std::chrono::milliseconds lag);
  // So much or less had `share` of them; 0 if there are none.
  std::chrono::milliseconds Quantile(double share) const;
  std::chrono::milliseconds max() const { return max_; }
  int64_t count() const { return count_; }

 private:
  std::array<int64_t, kSteps + 1> counts_ = {};
  int64_t count_ = 0;
  std::chrono::milliseconds max_{0};
};

}  // namespace msitd::watch
