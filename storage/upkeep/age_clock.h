// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/env/env.h"
#include "storage/index/chunk_index.h"

namespace msitd::storage {

// The clock by which bytes age. The clock on the wall is not enough: set wrong
// by years, it would have everything given up at once. It is believed as far
// as the time since the boot bears it out; when the two drift apart, ages count
// from there: nothing goes by its age before that much time has really passed.
//
// What it knows survives a restart, in the index. Between two boots nobody
// measures the time: it is believed if it went forward by kOffNsMax at most.
//
// Single-sequence: whoever holds the lock of retention.
class AgeClock {
 public:
  static constexpr int64_t kMinuteNs = int64_t{60} * 1'000'000'000;
  // How far the two may drift apart.
  static constexpr int64_t kDriftNsMax = 2 * kMinuteNs;
  // How long a machine is believed to have been off.
  static constexpr int64_t kOffNsMax = 7 * 24 * 60 * kMinuteNs;
  // How often it is written down what time it is.
  static constexpr int64_t kKeepNs = kMinuteNs;

  AgeClock(ChunkIndex& index, Env& env) : index_(index), env_(env) {}

  // Sees what time it is, for the first time. Called once, before Read.
  void Begin();

  struct Reading {
    int64_t now_ns = 0;  // Since the Unix epoch.
    // Nothing is older than since then, by the same clock.
    int64_t steady_since_ns = 0;
    // When it was set last: what seems to be from the future came before.
    int64_t set_ns = 0;
  };
  // Never fails: what cannot be written down now, or is not to be, is with the
  // next reading.
  Reading Read(bool may_write);

  // Says from when ages count and why, for people.
  std::string PauseReason() const;

 private:
  // A time by both clocks.
  struct Times {
    int64_t wall_ns = 0;
    int64_t boot_ns = 0;
  };
  // By how much more the wall clock went on from `begin` than the other did.
  static int64_t Drift(const Times& begin, const Times& end);

  void OnDrift(const Times& now, int64_t drift_ns);
  // `is_urgent`: durably.
  void Keep(const Times& now, bool is_urgent);

  ChunkIndex& index_;
  Env& env_;

  std::string boot_id_;
  Times reference_;  // Of this boot; the clocks agree since.
  Times kept_;       // What was written down last.
  bool must_keep_ = false;
  int64_t steady_since_ns_ = 0;
  int64_t set_ns_ = 0;
  int64_t drift_ns_ = 0;
  // How it was before the clock went forward: it may come back.
  struct Before {
    Times reference;
    int64_t steady_since_ns = 0;
    int64_t drift_ns = 0;
  };
  std::optional<Before> before_;
};

}  // namespace msitd::storage
