// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "protos/base/limits.h"
#include "protos/base/stream_coverage.h"
#include "protos/base/stream_id.h"
#include "protos/chunk/chunk.h"
#include "storage/face/types.h"

// The seam between the transports and the pipeline. A transport lends memory
// and hears about progress; nothing else crosses.
namespace msitd::ingest {

// Who streams. The transport has checked the names and ranges.
struct StreamSpec {
  std::string run;
  int32_t rank = 0;
  int32_t world_size = 0;  // At least 1, above `rank`.
  uint64_t stream_id = 0;  // Not 0.
  std::string user_agent;  // For logs.
  // True if the producer can rewrite a chunk until it is committed.
  bool shares_memory = false;
  IfExists if_exists = IfExists::kFail;
  // The launch that the producer belongs to; empty for that of its process.
  std::string job = {};
  // Who asks. Nobody may stream who is not named here with the role writer.
  access::Caller caller = {};
  // The run that it restores, which others may not stream into meanwhile. Such
  // a stream joins no other run and makes none.
  std::optional<storage::RunId> restored_run = {};
};

// Memory that a transport lends with a chunk. Destroying it says that the
// bytes are no longer read: the slot or buffer is free. Happens once, on any
// thread, with no lock held.
class Lease {
 public:
  virtual ~Lease() = default;
};

// A transport's end of one stream. All calls come from one thread of the
// pipeline, one after another, with no lock held; they must not block, and may
// call the pipeline.
class StreamPeer {
 public:
  // The first `count` chunks of the stream are durable. `conflict_count` is the
  // number of records, since the stream was opened, that the run already has
  // with other bytes. Neither number decreases.
  virtual void Commit(uint64_t count, uint64_t conflict_count) = 0;

  // The producer is to record what `policy` says: encoded capture::Policies.
  virtual void SetCapturePolicy(const std::string& policy) = 0;

  // There is room again after an Offer that returned kWait.
  virtual void Resume() = 0;

  // The stream is over: every chunk that was taken has been committed or, if
  // the storage failed, dropped. OK if the transport finished it. The last
  // call, made exactly once; the peer may die in it.
  virtual void End(const absl::Status& status) = 0;

 protected:
  ~StreamPeer() = default;
};

// Memory that the producer of a stream shares with the daemon. Thread-safe.
class StreamMemory {
 public:
  virtual ~StreamMemory() = default;

  virtual uint64_t size_bytes() const = 0;
  // Chunks that the producer has handed over and that are not durable yet, as
  // the producer says: at most size_bytes().
  virtual uint64_t used_bytes() const = 0;
};

// A stream that is open, as its transport holds it.
struct IngestStream;
using StreamHandle = std::shared_ptr<IngestStream>;

// True if a producer can have begun all tokens below `token_end` and no other.
constexpr bool IsTokenEnd(int64_t token_end) {
  return token_end >= 0 && token_end <= kTokenMax + 1;
}

// Where both doors deliver the chunks of their streams. Thread-safe.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;

  // Opens a stream. Makes its run if there is none; if there is one, does what
  // `spec.if_exists` says, which may lead to another run. Chunks must name the
  // run of the result. A stream that is refused changes no run. `peer` is
  // called from here on and outlives the stream, which ends with the call of
  // its End. Blocks on the store, on others that open, seal or delete the same
  // run, and on what the same producer's earlier connection has in flight; not
  // on commits of other runs.
  //
  // Errors: INVALID_ARGUMENT (RANK_OUT_OF_RANGE, FIELD_INVALID);
  // PERMISSION_DENIED (ROLE_REFUSED; NOT_OWNER: the run is somebody else's);
  // FAILED_PRECONDITION (RUN_SEALED, RUN_RESTORING; RUN_EXISTS: the run has
  // another world size, or tensors of the rank from others); ALREADY_EXISTS
  // (RANK_BUSY; RUN_EXISTS: another rank of the launch has replaced the run
  // with a later recording); RESOURCE_EXHAUSTED (STREAMS_EXHAUSTED);
  // UNAVAILABLE (NOT_SERVING); those of the store.
  struct Opened {
    StreamHandle stream;
    // The run of the stream, which may not be the one that was asked for.
    std::string run;
    uint64_t committed_chunk_count = 0;
    // See storage::RunInfo. The peer is told of every later one.
    std::string capture_policy;
    // For IfExists::kAppend, the token at which the producer should begin: the
    // same for all ranks of a job.
    int64_t first_token = 0;
  };
  virtual absl::StatusOr<Opened> Open(const StreamSpec& spec,
                                      StreamPeer& peer) = 0;

  enum class Offered {
    kMore,   // Taken; offer the next one.
    kWait,   // Taken; offer no more before StreamPeer::Resume.
    kEnded,  // Not taken; StreamPeer::End comes or has come.
  };

  // Takes one chunk, which begins at a multiple of kChunkAlignment, as lent by
  // `lease`. Never blocks on I/O. One thread at a time for each stream. A chunk
  // that is refused ends the stream once everything before it is committed.
  virtual Offered Offer(const StreamHandle& stream,
                        std::span<const std::byte> bytes,
                        std::unique_ptr<Lease> lease) = 0;
  // The same for a chunk whose head has been checked.
  virtual Offered Offer(const StreamHandle& stream, chunk::Chunk chunk,
                        std::unique_ptr<Lease> lease) = 0;

  // Takes a report of the producer: what the stream was handed so far, and the
  // end of the tokens that it has begun, for which IsTokenEnd holds.
  virtual void ReportCoverage(const StreamHandle& stream,
                              const StreamCoverage& coverage,
                              int64_t token_end) = 0;

  // Tells which memory the chunks of the stream lie in, for whoever looks at
  // the stream. Kept as long as the stream.
  virtual void NoteMemory(const StreamHandle& stream,
                          std::shared_ptr<const StreamMemory> memory) = 0;

  // Ends the stream with `status` once what it has in flight is committed. The
  // first end counts.
  virtual void Finish(const StreamHandle& stream,
                      const absl::Status& status) = 0;
};

}  // namespace msitd::ingest
