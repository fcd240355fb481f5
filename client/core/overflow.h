// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace msitd::client {

// Says how long a record may wait for room. A record that waited in vain makes
// those after it not wait at all, until one of them finds room: a daemon that
// is gone costs the process `max_block` once, not per record.
// Thread-compatible.
class Overflow {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Overflow(std::chrono::microseconds max_block)
      : max_block_(max_block) {}

  Clock::time_point DeadlineFor(Clock::time_point now) const {
    return is_stalled_ ? now : now + max_block_;
  }
  void OnRoom() { is_stalled_ = false; }
  void OnTimeout() { is_stalled_ = true; }

 private:
  std::chrono::microseconds max_block_;
  bool is_stalled_ = false;
};

}  // namespace msitd::client
