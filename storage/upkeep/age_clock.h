// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/env/env.h"
#include "storage/index/chunk_index.h"

namespace msitd::storage {

// Clock for the age of bytes. The wall clock is not sufficient: if it were set
// wrong by years, everything would be discarded at once. It is therefore
// compared with the time since the boot, which cannot be set. When the two
// drift apart, ages count from that moment: nothing is discarded by age before
// that much time has really passed. If the clock was set forward and is set
// back, ages count as before.
//
// The state is stored in the index and survives a restart. The time between two
// boots cannot be measured: the wall clock is trusted if it advanced by at most
// kOffNsMax.
//
// Must be used by one thread at a time, the holder of the retention lock.
class AgeClock {
 public:
  static constexpr int64_t kMinuteNs = int64_t{60} * 1'000'000'000;
  // Maximum drift between the two clocks.
  static constexpr int64_t kDriftNsMax = 2 * kMinuteNs;
  // Maximum time that a machine is assumed to have been off.
  static constexpr int64_t kOffNsMax = 7 * 24 * 60 * kMinuteNs;
  // Interval at which the time is written to the index.
  static constexpr int64_t kKeepNs = kMinuteNs;

  AgeClock(ChunkIndex& index, Env& env) : index_(index), env_(env) {}

  // Reads the clocks and the state in the index. Must be called once, before
  // Read.
  void Begin();

  struct Reading {
    int64_t now_ns = 0;  // Since the Unix epoch.
    // Earliest start of ages, by the same clock.
    int64_t steady_since_ns = 0;
    // When the wall clock was last set. Bytes with a time in the future were
    // received before that.
    int64_t set_ns = 0;
  };
  // Returns the current times. Never fails: state that cannot or must not be
  // written now is written by a later call.
  Reading Read(bool may_write);

  // Returns the time from which ages count and the reason, as text for users.
  std::string PauseReason() const;

 private:
  // A moment on both clocks.
  struct Times {
    int64_t wall_ns = 0;
    int64_t boot_ns = 0;
  };
  // Returns by how much more the wall clock advanced from `begin` to `end` than
  // the boot clock.
  static int64_t Drift(const Times& begin, const Times& end);

  void OnDrift(const Times& now, int64_t drift_ns);
  // Writes the state to the index; durably if `is_urgent`.
  void Keep(const Times& now, bool is_urgent);

  ChunkIndex& index_;
  Env& env_;

  std::string boot_id_;
  Times reference_;  // In this boot; the clocks have agreed since then.
  Times kept_;       // Last written state.
  bool must_keep_ = false;
  int64_t steady_since_ns_ = 0;
  int64_t set_ns_ = 0;
  int64_t drift_ns_ = 0;
  // The state before the clock was set forward, in case it is set back.
  struct Before {
    Times reference;
    int64_t steady_since_ns = 0;
    int64_t drift_ns = 0;
  };
  std::optional<Before> before_;
};

}  // namespace msitd::storage
