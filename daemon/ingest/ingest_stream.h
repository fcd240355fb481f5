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

// The pipeline's state of one stream. Shared by the transport, which uses it as
// a handle, by the registry and by the work in flight. All members except
// `spec`, `number` and `peer` are guarded by the mutex of the pipeline.
//
//   open --end set--> ending --nothing in flight--> gone
//
// The commit thread may be blocked by a commit of other streams. Threads that
// wait for this stream to be gone need not wait for that commit. As soon as the
// commit thread holds nothing of this stream, its rank is released. Its peer is
// notified of the end later.
struct IngestStream {
  IngestStream(StreamSpec s, StreamPeer& p, uint64_t n)
      : spec(std::move(s)), number(n), peer(p) {}

  const StreamSpec spec;
  // Unique in the process. Unlike the id of the stream, not chosen by the
  // producer.
  const uint64_t number;
  StreamPeer& peer;  // Valid until its End was called.

  uint64_t next_sequence = 0;  // Of the next chunk to accept.
  uint64_t committed_count = 0;
  uint64_t conflict_count = 0;  // Since the stream was opened.
  // Since the stream was opened, like the two following members.
  uint64_t opened_chunk_count = 0;
  uint64_t opened_record_count = 0;
  uint64_t opened_bytes = 0;  // Payload bytes.
  const std::chrono::steady_clock::time_point open_time =
      std::chrono::steady_clock::now();
  StreamCoverage last_coverage;                // The last report.
  std::shared_ptr<const StreamMemory> memory;  // Null if none is shared.
  // Reported by the producer but not yet passed to the store.
  std::optional<StreamCoverage> coverage;
  TokenPace pace;
  access::FairShares::Grant share;  // Of the limit on open streams.
  // A capture policy that was not sent to the peer yet; null if there is none.
  std::shared_ptr<const std::string> new_policy;

  // Accepted chunks that no commit has started for, in order.
  std::deque<std::unique_ptr<PendingChunk>> pending;
  // Chunks in `pending` and chunks being committed.
  uint64_t in_flight_chunks = 0;
  uint64_t in_flight_bytes = 0;
  // Chunks in flight that the commit thread is committing.
  uint64_t committing_chunks = 0;
  // The commit thread holds a coverage report of the stream.
  bool reporting = false;

  // Set once. No more chunks are accepted after that, and the peer receives
  // this status.
  std::optional<absl::Status> end;
  bool discard = false;      // Drop the chunks in flight.
  bool awaits_room = false;  // The last Offer returned kWait.
  bool owes_ack = false;     // Commits must be reported to the peer.
  bool touched = false;      // In the commit thread's list.
  bool released = false;     // Its rank is free for another stream.
  bool heard_end = false;    // The end was or is being reported.
};

}  // namespace msitd::ingest
