// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// Receives SIGTERM, SIGINT and SIGHUP as events. Used only on the main thread.
class StopSignals {
 public:
  // Blocks these signals and ignores SIGPIPE. Must be called before any other
  // thread exists, so that all threads inherit the mask.
  static absl::StatusOr<StopSignals> Install();

  // Waits for a signal, at most for `timeout` if it is given.
  std::optional<int> Wait(std::optional<std::chrono::milliseconds> timeout);

  // After this call the next SIGTERM or SIGINT terminates the process
  // immediately. SIGHUP stays blocked.
  void LetNextKill();

 private:
  explicit StopSignals(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace msitd::server
