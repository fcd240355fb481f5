// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protos/base/stream_coverage.h"
#include "protos/base/stream_id.h"

namespace msitd::libmsit {

// Identifies the stream and its producer. The views are valid as long as the
// transport.
struct StreamIdentity {
  std::string_view run;
  int32_t rank = 0;
  int32_t world_size = 1;
  uint64_t stream_id = 0;
  std::string_view user_agent;
  IfExists if_exists = IfExists::kFail;
  std::string_view job;
  // Memory for chunks that the client would like to share with the daemon.
  uint64_t buffer_bytes = 0;
};

// Why a connection ended.
enum class StreamEnd {
  // After Finish: the daemon has accepted everything.
  kFinished = 0,
  // The connection is broken, or the daemon is gone or busy. The stream can be
  // opened again later.
  kLost = 1,
  // The daemon refused the opening, or the first chunk that it had not
  // acknowledged.
  kChunkRefused = 2,
  // The daemon permanently refuses this stream. Opening it again is useless.
  kRefused = 3,
};

// Receives the events of one connection, on threads of the transport, one call
// at a time. Implementations must not block and must not call the transport.
class TransportListener {
 public:
  // The transport shares `memory` with the daemon, and sends chunks in it
  // without copying them. Called at most once in the life of the transport,
  // before OnCommitted. `memory` is page-aligned and stays valid until Destroy.
  virtual void OnSharedMemory(std::span<std::byte> memory) = 0;

  // The daemon has sent `policy`, encoded capture::Policies. The policies in
  // force when the stream opens are reported before OnCommitted.
  virtual void OnCapturePolicy(std::string_view policy) = 0;

  // Chunks must name `run` instead of the requested run. Called before
  // OnCommitted, if at all.
  virtual void OnRun(std::string_view run) = 0;

  // The highest chunk version that the daemon accepts. Called before
  // OnCommitted. If it is not called, the daemon accepts chunk::kExtrasVersion
  // at most.
  virtual void OnChunkVersion(uint32_t version) = 0;

  // The token at which a client that appends should begin. Called before
  // OnCommitted, if at all.
  virtual void OnFirstToken(uint64_t token) = 0;

  // Since the stream was opened, `conflict_count` records were sent that the
  // daemon already had with other bytes. Never decreases.
  virtual void OnConflicts(uint64_t conflict_count) = 0;

  // The daemon has the first `committed_count` chunks of the stream. The first
  // call reports that the stream is open.
  virtual void OnCommitted(uint64_t committed_count) = 0;

  // The connection ended; no more calls follow. `message` is valid during the
  // call.
  virtual void OnEnd(StreamEnd end, std::string_view message) = 0;

 protected:
  ~TransportListener() = default;
};

// Sends the chunks of one stream to a daemon, over one connection at a time.
// Used only by the thread that owns it. No call waits for the daemon or the
// network.
//
//   idle --Open--> connected --Stop--> idle
//
// This interface is used across a shared library boundary. It therefore uses
// only plain types, and Destroy instead of a destructor.
class Transport {
 public:
  // Connects, opens the stream and reports to `listener`, which must outlive
  // the connection.
  virtual void Open(const StreamIdentity& identity,
                    TransportListener* listener) = 0;

  // Sends a chunk after those sent earlier. If there is shared memory, the
  // chunk must be in it. Its bytes are borrowed until the daemon has
  // acknowledged it or Stop has returned true.
  virtual void Send(std::span<const std::byte> chunk) = 0;

  // Reports the coverage of the records so far to the daemon. `token_end` is
  // one above the highest token that has begun; 0 if none has.
  virtual void ReportCoverage(const StreamCoverage& coverage,
                              int64_t token_end) = 0;

  // Ends the stream after the chunks sent so far. OnEnd follows.
  virtual void Finish() = 0;

  // Breaks off the connection, if there is one. The listener is not called
  // after Stop returns. Returns false if the transport still borrows chunks.
  virtual bool Stop() = 0;

  // Takes ownership of a mapping with chunks that are still borrowed after
  // Stop, and unmaps it when it is no longer read. Nothing may be opened or
  // sent afterwards.
  virtual void KeepMemory(std::span<std::byte> mapping) = 0;

  // Stops and frees the transport. Unfinished work is freed later, in the
  // background.
  virtual void Destroy() = 0;

 protected:
  ~Transport() = default;
};

struct TransportDestroyer {
  void operator()(Transport* transport) const { transport->Destroy(); }
};

}  // namespace msitd::libmsit
