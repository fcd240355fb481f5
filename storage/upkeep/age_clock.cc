// SPDX-License-Identifier: Apache-2.0
#include "storage/upkeep/age_clock.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <limits>

#include "protos/status/status.h"
#include "storage/env/logger.h"

namespace msitd::storage {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// Saturates, because a clock that can be set may have any value.
int64_t Difference(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_sub_overflow(a, b, &out)) return out;
  return a > b ? std::numeric_limits<int64_t>::max()
               : std::numeric_limits<int64_t>::min();
}

std::string TimeText(int64_t ns) {
  const std::chrono::sys_seconds time{std::chrono::seconds(ns / kSecondNs)};
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     std::chrono::system_clock::time_point(time));
}

}  // namespace

int64_t AgeClock::Drift(const Times& begin, const Times& end) {
  return Difference(Difference(end.wall_ns, begin.wall_ns),
                    Difference(end.boot_ns, begin.boot_ns));
}

AgeClock::Reading AgeClock::Read(bool may_write) {
  const Times now{env_.NowNs(), env_.BootNs()};
  const int64_t drift_ns = Drift(reference_, now);
  const auto has_drifted = [](int64_t ns) {
    return ns > kDriftNsMax || ns < -kDriftNsMax;
  };
  if (has_drifted(drift_ns)) {
    if (before_.has_value() && !has_drifted(Drift(before_->reference, now))) {
      StorageLogger()->info("the clock is back: ages count as before");
      reference_ = before_->reference;
      steady_since_ns_ = before_->steady_since_ns;
      drift_ns_ = before_->drift_ns;
      before_.reset();
      set_ns_ = now.wall_ns;
      must_keep_ = true;
    } else {
      OnDrift(now, drift_ns);
    }
  }
  const bool is_due =
      must_keep_ || Difference(now.boot_ns, kept_.boot_ns) >= kKeepNs;
  if (is_due && may_write) Keep(now, must_keep_);
  return {now.wall_ns, steady_since_ns_, set_ns_};
}

void AgeClock::Begin() {
  const Times now{env_.NowNs(), env_.BootNs()};
  boot_id_ = env_.BootId();
  reference_ = now;
  steady_since_ns_ = now.wall_ns;
  set_ns_ = now.wall_ns;
  const absl::StatusOr<std::optional<ClockMark>> mark = index_.Clock();
  must_keep_ = !mark.ok() || !mark->has_value();
  if (must_keep_) {
    if (mark.ok()) return;
    return StorageLogger()->error("ages count from now on: {}",
                                  Message(mark.status()));
  }
  const ClockMark& last = **mark;
  steady_since_ns_ = last.steady_since_ns;
  set_ns_ = last.set_ns;
  drift_ns_ = last.drift_ns;
  kept_ = {last.wall_ns, last.boot_ns};
  if (last.boot_id == boot_id_) {
    reference_ = kept_;
    return;
  }
  must_keep_ = true;
  const int64_t off_ns = Difference(now.wall_ns, last.wall_ns);
  if (off_ns > kOffNsMax || off_ns < -kDriftNsMax) OnDrift(now, off_ns);
}

void AgeClock::OnDrift(const Times& now, int64_t drift_ns) {
  before_.reset();
  // Only a step forward can be undone. After a step back, data received while
  // the clock was slow appears too old once the clock is correct again.
  if (drift_ns > 0) {
    before_ = {reference_, steady_since_ns_, drift_ns_};
  }
  reference_ = now;
  steady_since_ns_ = now.wall_ns;
  set_ns_ = now.wall_ns;
  drift_ns_ = drift_ns;
  must_keep_ = true;
  StorageLogger()->warn("retention by age waits: {}", PauseReason());
}

void AgeClock::Keep(const Times& now, bool is_urgent) {
  const absl::Status status =
      index_.SetClock({boot_id_, now.wall_ns, now.boot_ns, steady_since_ns_,
                       set_ns_, drift_ns_},
                      is_urgent);
  if (!status.ok()) return;
  kept_ = now;
  must_keep_ = false;
}

std::string AgeClock::PauseReason() const {
  if (drift_ns_ == 0) {
    return fmt::format("ages count from {}, when this store was new to us",
                       TimeText(steady_since_ns_));
  }
  return fmt::format(
      "the clock went {} {} s that had not passed, and was {} then: ages count "
      "from there",
      drift_ns_ > 0 ? "forward" : "backward",
      (std::abs(drift_ns_ / 2) + kSecondNs / 4) / (kSecondNs / 2),
      TimeText(steady_since_ns_));
}

}  // namespace msitd::storage
