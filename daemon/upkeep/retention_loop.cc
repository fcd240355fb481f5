// SPDX-License-Identifier: Apache-2.0
#include "daemon/upkeep/retention_loop.h"

#include <algorithm>

#include "daemon/log/log.h"
#include "protos/status/status.h"

namespace msitd::upkeep {

RetentionLoop::RetentionLoop(storage::Upkeep& store, const Options& options)
    : store_(store), options_(options) {
  loop_.Start("retention", [this] { return Work(); });
}

std::string RetentionLoop::error() {
  MutexLock lock(mu_);
  return error_;
}

void RetentionLoop::SetOptions(const Options& options) {
  MutexLock lock(mu_);
  options_ = options;
}

RetentionLoop::Options RetentionLoop::CurrentOptions() {
  MutexLock lock(mu_);
  return options_;
}

std::chrono::nanoseconds RetentionLoop::Work() {
  const std::chrono::nanoseconds interval = CurrentOptions().interval;
  const absl::StatusOr<bool> is_retained = Retain();
  if (!is_retained.value_or(false)) {
    SetError(std::string(Message(is_retained.status())));
    return interval;
  }
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<bool> is_done = TidyAndShare();
  SetError(std::string(Message(is_done.status())));
  if (is_done.value_or(true)) return interval;
  const std::chrono::nanoseconds rest =
      kRestFactor * (std::chrono::steady_clock::now() - begin);
  return std::min(rest, interval);
}

absl::StatusOr<bool> RetentionLoop::TidyAndShare() {
  // Each of the two steps is attempted even if the other fails.
  const absl::StatusOr<bool> is_tidy = store_.Tidy();
  if (!CurrentOptions().shares_equal_bytes) return is_tidy;
  MSITD_ASSIGN_OR_RETURN(const storage::ShareStep step, store_.Share());
  shared_bytes_ += step.shared_bytes;
  if (step.is_done && shared_bytes_ > 0) {
    log::Get("retention")->info("shared equal bytes={}", shared_bytes_);
    shared_bytes_ = 0;
  }
  if (!is_tidy.ok()) return is_tidy;
  return *is_tidy && step.is_done;
}

absl::StatusOr<bool> RetentionLoop::Retain() {
  uint64_t expired_bytes = 0;
  absl::StatusOr<storage::RetentionStep> step = storage::RetentionStep();
  bool is_done = false;
  bool stops = false;
  while (!is_done && !stops && step.ok()) {
    step = store_.Retain(CurrentOptions().policy);
    if (step.ok()) {
      expired_bytes += step->expired_bytes;
      is_done = step->is_done;
    }
    stops = loop_.must_stop();
  }
  if (expired_bytes > 0) {
    log::Get("retention")->info("gave up bytes={}", expired_bytes);
  }
  if (!step.ok()) return step.status();
  return is_done && !stops;
}

void RetentionLoop::SetError(const std::string& error) {
  {
    MutexLock lock(mu_);
    if (error == error_) return;
    error_ = error;
  }
  const auto log = log::Get("retention");
  if (error.empty()) {
    log->info("room can be made again");
  } else {
    log->error("room cannot be made error='{}'", error);
  }
}

}  // namespace msitd::upkeep
