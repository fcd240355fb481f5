// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/libmsit/core/overflow.h"
#include "protos/base/stream_id.h"

namespace msitd::acl {

// The settings in the environment. README.md lists the names.
struct Settings {
  std::string run;
  // The daemon. The feed sets it, because finding a daemon may start one.
  std::string endpoint;
  // The rank of dumps whose path contains no rank.
  int32_t rank = 0;
  int32_t world_size = 1;
  // The action if the run already has tensors of these ranks.
  IfExists if_exists = IfExists::kFail;
  // Ops begin with their graph, even if there is only one.
  bool names_graphs = false;
  // Memory for dumps that have not been sent, including unfinished ones.
  uint64_t memory_bytes_max = uint64_t{1} << 30;
  libmsit::OverflowMode overflow = libmsit::OverflowMode::kBlock;
  // The longest time that a callback waits for memory.
  std::chrono::milliseconds max_block{1000};
};

// An INVALID_ARGUMENT error names the variable.
absl::StatusOr<Settings> ReadSettings();

}  // namespace msitd::acl
