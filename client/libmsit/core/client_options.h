// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/overflow.h"
#include "client/libmsit/core/status.h"
#include "client/libmsit/include/msit/msit.h"
#include "protos/base/stream_id.h"

namespace msitd::libmsit {

// For ClientOptions::buffer_bytes: the client determines its need.
inline constexpr uint64_t kBufferAuto = MSIT_BUFFER_AUTO;

// The options in msit_options; see there.
struct ClientOptions {
  std::string run;
  int32_t rank = 0;
  int32_t world_size = 1;
  OverflowMode overflow = OverflowMode::kBlock;
  std::chrono::microseconds max_block{std::chrono::seconds(1)};
  uint64_t buffer_bytes = kBufferAuto;
  std::chrono::microseconds linger{std::chrono::milliseconds(20)};
  std::chrono::microseconds open_timeout{std::chrono::seconds(5)};
  std::string device = "cpu:0";
  std::string user_agent;
  InterruptCheck interrupt;
  IfExists if_exists = IfExists::kFail;
  // Empty: the result of LaunchOf.
  std::string job;
  // The endpoint of the daemon. Used only to distinguish daemons.
  std::string endpoint;

  // Upper limit for kBufferAuto. 0: a share of the memory of the node.
  uint64_t auto_bytes_max = 0;

  // How long the sender waits for the answer to an opening, and how long it
  // waits before it opens again: backoff_min at first, doubled after each
  // failure up to backoff_max.
  std::chrono::milliseconds answer_timeout{10'000};
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};

  // Minimum time between two reports of the coverage. Nothing is reported while
  // nothing changes. At the end of the stream the rest is reported immediately.
  std::chrono::milliseconds report_interval{1'000};
};

// The counters in msit_counters; see there.
struct ClientCounters {
  uint64_t recorded_count = 0;
  uint64_t recorded_bytes = 0;
  uint64_t acknowledged_count = 0;
  uint64_t acknowledged_bytes = 0;
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  uint64_t invalid_count = 0;
  uint64_t filtered_count = 0;
  uint64_t refused_chunk_count = 0;
  uint64_t reconnect_count = 0;
  uint64_t degraded_count = 0;
  uint64_t conflict_count = 0;
  uint64_t aliased_count = 0;
  uint64_t aliased_bytes = 0;
  uint64_t recording_ns = 0;
  uint64_t open_ns = 0;
};

}  // namespace msitd::libmsit
