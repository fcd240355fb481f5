// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace msitd::libmsit {

// Lets the host process end a waiting call; see msit_options.
struct InterruptCheck {
  // Maximum time between two calls of is_interrupted.
  static constexpr std::chrono::milliseconds kInterval{50};

  int32_t (*is_interrupted)(void* context) = nullptr;
  void* context = nullptr;

  explicit operator bool() const { return is_interrupted != nullptr; }
  bool operator()() const { return is_interrupted(context) != 0; }
};

// The waits of one call. Used only by the waiting thread.
class InterruptibleWait {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Result { kWoken, kTimeout, kInterrupted };

  explicit InterruptibleWait(InterruptCheck check)
      : check_(check), next_check_(Clock::now() + InterruptCheck::kInterval) {}

  // Waits until `condition` is notified, until `deadline`, or until the host
  // interrupts. May also wake spuriously. Calls the host without the lock.
  Result Until(std::condition_variable& condition, Clock::time_point deadline,
               std::unique_lock<std::mutex>& lock) {
    condition.wait_until(lock,
                         check_ ? std::min(deadline, next_check_) : deadline);
    if (check_ && Clock::now() >= next_check_) {
      lock.unlock();
      const bool is_interrupted = check_();
      lock.lock();
      next_check_ = Clock::now() + InterruptCheck::kInterval;
      if (is_interrupted) return Result::kInterrupted;
    }
    return Clock::now() >= deadline ? Result::kTimeout : Result::kWoken;
  }

 private:
  InterruptCheck check_;
  Clock::time_point next_check_;
};

}  // namespace msitd::libmsit
