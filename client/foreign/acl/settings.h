// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/libmsit/core/overflow.h"
#include "protos/base/stream_id.h"

namespace msitd::acl {

// What the environment says. README.md has the names.
struct Settings {
  std::string run;
  std::string endpoint;
  // Of dumps whose path says no rank.
  int32_t rank = 0;
  int32_t world_size = 1;
  // What becomes of a run that has these ranks already.
  IfExists if_exists = IfExists::kFail;
  // Ops begin with their graph, even if there is only one.
  bool names_graphs = false;
  // Of dumps that have not been sent: those that have begun, and those that
  // wait.
  uint64_t memory_bytes_max = uint64_t{1} << 30;
  libmsit::OverflowMode overflow = libmsit::OverflowMode::kBlock;
  // Longest time that a callback waits for memory.
  std::chrono::milliseconds max_block{1000};
};

// INVALID_ARGUMENT names the variable.
absl::StatusOr<Settings> ReadSettings();

}  // namespace msitd::acl
