// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/access/caller.h"

namespace msitd::ingest {

struct IngestOptions {
  int digest_threads = 2;

  // Niceness of the digest threads and the commit thread, if it is higher than
  // the niceness of the thread that creates them.
  int nice = 0;

  size_t streams_max = 384;

  // A stream with this many bytes in flight is told to wait.
  uint64_t stream_window_bytes = uint64_t{32} << 20;

  // How long a chunk may wait for others to share its sync. 0: only until the
  // sync in progress is finished.
  std::chrono::milliseconds commit_interval{0};

  // How often a storage that refused chunks is probed, so that its state stays
  // current even if no producer sends chunks.
  std::chrono::milliseconds probe_interval{1000};

  // An Append accepts no further chunks once it has this many bytes, which
  // bounds its duration.
  uint64_t commit_bytes_max = uint64_t{64} << 20;

  // Called when a stream of a run was opened or refused. May be empty. Runs on
  // any thread and must not block.
  std::function<void(const access::Caller& caller, std::string_view run,
                     const absl::Status& status)>
      note_open;
};

}  // namespace msitd::ingest
