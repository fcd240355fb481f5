// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/access/fair_shares.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/ingest/token_pace.h"
#include "protos/base/stream_coverage.h"
#include "protos/chunk/chunk.h"

namespace msitd::ingest {

// A chunk between its arrival and its commit.
struct PendingChunk {
  PendingChunk(chunk::Chunk c, uint64_t n, std::unique_ptr<Lease> l)
      : chunk(std::move(c)), bytes(n), lease(std::move(l)) {}

  chunk::Chunk chunk;
  uint64_t bytes;
  std::unique_ptr<Lease> lease;
  bool digested = false;
  const std::chrono::steady_clock::time_point arrival =
      std::chrono::steady_clock::now();
};

// What the pipeline knows of one stream. Shared by the transport, which uses
// it as a handle, the registry and the work in flight. All but `spec` and
// `peer` is guarded by the mutex of the pipeline.
//
//   open --end set--> ending --nothing in flight--> gone
//
// The commit thread may hang in a commit of other streams. Whoever waits for
// this stream to be gone need not wait for that: once the commit thread holds
// nothing of this stream, its rank is released, and its peer hears of the end
// later.
struct IngestStream {
  IngestStream(StreamSpec s, StreamPeer& p) : spec(std::move(s)), peer(p) {}

  const StreamSpec spec;
  StreamPeer& peer;  // Valid until its End has been called.

  uint64_t next_sequence = 0;  // Of the next chunk to take.
  uint64_t committed_count = 0;
  uint64_t conflict_count = 0;  // Since it was opened.
  // Since it was opened, like the two that follow.
  uint64_t opened_chunk_count = 0;
  uint64_t opened_record_count = 0;
  uint64_t opened_bytes = 0;  // Payload.
  const std::chrono::steady_clock::time_point open_time =
      std::chrono::steady_clock::now();
  StreamCoverage last_coverage;                // The last report.
  std::shared_ptr<const StreamMemory> memory;  // Null if none is shared.
  // Reported, not yet passed to the store.
  std::optional<StreamCoverage> coverage;
  TokenPace pace;
  access::FairShares::Grant share;  // Of the streams that may be open.
  // A capture policy that the peer has not heard of; null if there is none.
  std::shared_ptr<const std::string> new_policy;

  // Taken and not yet committed, in order.
  std::deque<std::unique_ptr<PendingChunk>> pending;
  // Those of `pending` and those being committed.
  uint64_t in_flight_chunks = 0;
  uint64_t in_flight_bytes = 0;
  // Those of the chunks in flight that the commit thread is committing.
  uint64_t committing_chunks = 0;
  // The commit thread holds a coverage of it.
  bool reporting = false;

  // Set once: no more chunks are taken, and this is what the peer will hear.
  std::optional<absl::Status> end;
  bool discard = false;      // What is in flight is dropped.
  bool awaits_room = false;  // The last Offer returned kWait.
  bool owes_ack = false;     // The peer is to be told of the commits.
  bool touched = false;      // In the commit thread's list.
  bool released = false;     // Its rank is free for another stream.
  bool heard_end = false;    // The peer has been told, or is being told.
};

}  // namespace msitd::ingest
