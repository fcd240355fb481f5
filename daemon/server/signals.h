// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// Receives SIGTERM and SIGINT as events. Single-sequence: the main thread.
class StopSignals {
 public:
  // Blocks both signals and ignores SIGPIPE. To be called before any other
  // thread exists, so that all inherit the mask.
  static absl::StatusOr<StopSignals> Install();

  // Waits for a signal, at most `timeout` if that is given.
  std::optional<int> Wait(std::optional<std::chrono::milliseconds> timeout);

  // From here on the next signal ends the process at once.
  void LetNextKill();

 private:
  explicit StopSignals(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace msitd::server
