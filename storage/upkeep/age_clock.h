// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/env/env.h"
#include "storage/index/chunk_index.h"

namespace msitd::storage {

// The clock by which bytes age. The wall clock alone is not enough: set wrong
// by years, it would have everything given up at once. So it is compared with
// the time since the boot, which nobody can set. When the two drift apart, ages
// count from that moment: nothing goes by its age before that much time has
// really passed. If the clock went forward and comes back, ages count as
// before.
//
// Its state is kept in the index and survives a restart. Nobody measures the
// time between two boots: the wall clock is believed if it went forward by at
// most kOffNsMax.
//
// Single-sequence: the holder of the lock of retention.
class AgeClock {
 public:
  static constexpr int64_t kMinuteNs = int64_t{60} * 1'000'000'000;
  // How far the two clocks may drift apart.
  static constexpr int64_t kDriftNsMax = 2 * kMinuteNs;
  // How long a machine is believed to have been off.
  static constexpr int64_t kOffNsMax = 7 * 24 * 60 * kMinuteNs;
  // How often the time is written to the index.
  static constexpr int64_t kKeepNs = kMinuteNs;

  AgeClock(ChunkIndex& index, Env& env) : index_(index), env_(env) {}

  // Reads the clocks and the state in the index. Called once, before Read.
  void Begin();

  struct Reading {
    int64_t now_ns = 0;  // Since the Unix epoch.
    // Ages count from this time at the earliest, by the same clock.
    int64_t steady_since_ns = 0;
    // When the wall clock was last set. Bytes that seem to be from the future
    // came before that.
    int64_t set_ns = 0;
  };
  // Never fails: state that cannot be written now, or must not be, is written
  // by a later reading.
  Reading Read(bool may_write);

  // Returns from when ages count and why, for people.
  std::string PauseReason() const;

 private:
  // A time by both clocks.
  struct Times {
    int64_t wall_ns = 0;
    int64_t boot_ns = 0;
  };
  // Returns by how much more the wall clock advanced from `begin` to `end` than
  // the boot clock did.
  static int64_t Drift(const Times& begin, const Times& end);

  void OnDrift(const Times& now, int64_t drift_ns);
  // Writes the state to the index; durably if `is_urgent`.
  void Keep(const Times& now, bool is_urgent);

  ChunkIndex& index_;
  Env& env_;

  std::string boot_id_;
  Times reference_;  // In this boot; the clocks agree since then.
  Times kept_;       // What was written down last.
  bool must_keep_ = false;
  int64_t steady_since_ns_ = 0;
  int64_t set_ns_ = 0;
  int64_t drift_ns_ = 0;
  // The state before the clock went forward, in case it comes back.
  struct Before {
    Times reference;
    int64_t steady_since_ns = 0;
    int64_t drift_ns = 0;
  };
  std::optional<Before> before_;
};

}  // namespace msitd::storage
