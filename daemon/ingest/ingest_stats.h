// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "daemon/ingest/chunk_sink.h"
#include "protos/base/stream_coverage.h"

namespace msitd::ingest {

// State of the storage after the last Append or probe.
enum class StorageState { kOk, kFull, kFailed };

// Counters start at zero when the pipeline is created.
struct IngestStats {
  StorageState storage_state = StorageState::kOk;
  std::string storage_error;
  uint64_t open_stream_count = 0;
  uint64_t refused_chunk_count = 0;
  // Refused chunks by the name of the reason; the name is empty if there is
  // none.
  std::map<std::string, uint64_t> refused_by_reason;
  // Totals reported by producers.
  StreamCoverage coverage;
  uint64_t ready_bytes = 0;  // Digested and waiting for a commit now.
  // Totals of all streams: bytes of chunks that are not durable yet, and bytes
  // of memory that producers share.
  uint64_t in_flight_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t ring_used_bytes = 0;
};

// Current state of an open stream. Counts start when the stream was opened.
struct StreamStats {
  StreamSpec spec;
  std::chrono::steady_clock::duration age{0};
  uint64_t committed_chunk_count = 0;
  uint64_t committed_record_count = 0;
  uint64_t committed_bytes = 0;
  uint64_t in_flight_bytes = 0;
  uint64_t ring_bytes = 0;
  uint64_t ring_used_bytes = 0;
  StreamCoverage coverage;  // Last report: totals of all openings.
};

}  // namespace msitd::ingest
