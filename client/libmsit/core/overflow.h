// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace msitd::libmsit {

// The behavior of a stream when records are made faster than the daemon accepts
// them.
// The values are those of msit_overflow.
enum class OverflowMode : uint8_t {
  // A record waits for room, up to `max_block`.
  kBlock = 0,
  // A record never waits.
  kDropNewest = 1,
  // Records of the oldest token that were not sent make room for a newer token.
  kDropOldestToken = 2,
  // While there is little room, records are kept as summaries.
  kDegrade = 3,
};
inline constexpr int kOverflowModeCount = 4;

// Determines how long a record may wait for room, how much of it is kept while
// there is little room, and how many chunks are sent before they are
// acknowledged. Thread-compatible.
//
// After a record has waited in vain, later records do not wait until the daemon
// has accepted or refused a chunk. A daemon that is gone therefore costs the
// process `max_block` once, not once per record.
class Overflow {
 public:
  using Clock = std::chrono::steady_clock;

  // kDegrade takes effect when fewer than a quarter of the slots are free, or
  // fewer than two: room for one more chunk with bytes and one with summaries.
  // It ends when half of the slots are free.
  static constexpr size_t kDegradeShare = 4;
  static constexpr size_t kDegradeFreeMin = 2;
  static constexpr size_t kRecoverShare = 2;

  // kDropOldestToken sends at most this share of the slots ahead, because
  // chunks that were sent can no longer be dropped to make room.
  static constexpr size_t kSentShare = 2;

  Overflow(OverflowMode mode, std::chrono::microseconds max_block)
      : mode_(mode),
        max_block_(mode == OverflowMode::kDropNewest
                       ? std::chrono::microseconds(0)
                       : max_block) {}

  Clock::time_point DeadlineFor(Clock::time_point now) const {
    return is_stalled_ ? now : now + max_block_;
  }
  void OnProgress() { is_stalled_ = false; }
  void OnTimeout() { is_stalled_ = true; }

  // Returns whether the record that begins now is kept as a summary.
  // `slot_count` must be at least two.
  bool MustDegrade(size_t free_count, size_t slot_count) {
    if (mode_ != OverflowMode::kDegrade) return false;
    const size_t low = std::min(
        std::max(slot_count / kDegradeShare, kDegradeFreeMin), slot_count - 1);
    const size_t high = std::max(slot_count / kRecoverShare, low);
    is_degrading_ = free_count < (is_degrading_ ? high : low);
    return is_degrading_;
  }

  bool drops_oldest_token() const {
    return mode_ == OverflowMode::kDropOldestToken;
  }

  // Returns how many chunks may be sent and not acknowledged at a time.
  size_t SentMax(size_t slot_count) const {
    return drops_oldest_token() ? std::max<size_t>(slot_count / kSentShare, 1)
                                : std::numeric_limits<size_t>::max();
  }

 private:
  OverflowMode mode_;
  std::chrono::microseconds max_block_;
  bool is_stalled_ = false;
  bool is_degrading_ = false;
};

}  // namespace msitd::libmsit
