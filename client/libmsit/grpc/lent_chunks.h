// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace msitd::libmsit {

// Counts the chunks that gRPC holds. Thread-safe.
class LentChunks {
 public:
  void Lend() {
    const std::lock_guard lock(mu_);
    ++count_;
  }

  void Return() {
    const std::lock_guard lock(mu_);
    if (--count_ == 0) is_zero_.notify_all();
  }

  bool empty() const {
    const std::lock_guard lock(mu_);
    return count_ == 0;
  }

  void WaitUntilEmpty() {
    std::unique_lock lock(mu_);
    while (count_ != 0) is_zero_.wait(lock);
  }

 private:
  mutable std::mutex mu_;
  std::condition_variable is_zero_;
  uint64_t count_ = 0;  // Guarded by mu_.
};

}  // namespace msitd::libmsit
