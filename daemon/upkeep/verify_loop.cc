// SPDX-License-Identifier: Apache-2.0
#include "daemon/upkeep/verify_loop.h"

#include <algorithm>
#include <utility>

#include "daemon/log/log.h"
#include "protos/status/status.h"

namespace msitd::upkeep {

VerifyLoop::VerifyLoop(storage::Upkeep& store, const Options& options)
    : store_(store), options_(options) {
  loop_.Start("verify", [this] { return Work(); });
}

void VerifyLoop::SetOptions(const Options& options) {
  MutexLock lock(mu_);
  options_ = options;
}

std::string VerifyLoop::error() {
  MutexLock lock(mu_);
  return error_;
}

std::chrono::nanoseconds VerifyLoop::Work() {
  Options options;
  {
    MutexLock lock(mu_);
    options = options_;
    // An error of checks that are turned off would stay forever.
    if (options.bytes_per_s == 0) error_.clear();
  }
  if (options.bytes_per_s == 0) return options.rest;
  storage::VerifyPolicy policy;
  policy.bytes_max = std::min(kStepBytesMax, options.bytes_per_s);
  policy.interval_ns = options.interval.count();
  const absl::StatusOr<storage::VerifyStep> step = store_.Verify(policy);
  const std::string error(Message(step.status()));
  bool has_changed = false;
  {
    MutexLock lock(mu_);
    has_changed = std::exchange(error_, error) != error;
  }
  if (has_changed && !error.empty()) {
    log::Get("verify")->error("stored bytes cannot be checked error='{}'",
                              error);
  }
  if (!step.ok() || step->is_done) return options.rest;
  const double seconds = static_cast<double>(step->bytes) /
                         static_cast<double>(options.bytes_per_s);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace msitd::upkeep
