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

// The interface between the transports and the pipeline. A transport lends
// memory and receives progress reports; nothing else crosses this interface.
namespace msitd::ingest {

// The producer of a stream. The transport has validated the names and ranges.
struct StreamSpec {
  std::string run;
  int32_t rank = 0;
  int32_t world_size = 0;  // At least 1 and above `rank`.
  uint64_t stream_id = 0;  // Not 0.
  std::string user_agent;  // For logs.
  // True if the producer can rewrite a chunk until it is committed.
  bool shares_memory = false;
  IfExists if_exists = IfExists::kFail;
  // The launch that the producer belongs to; empty for the launch of its
  // process.
  std::string job = {};
  // The caller, which must have the role writer.
  access::Caller caller = {};
  // The run that this stream restores, if any. Other streams are refused until
  // the restore is finished. A restoring stream never joins or creates another
  // run.
  std::optional<storage::RunId> restored_run = {};
};

// Memory that a transport lends together with a chunk. Destroying the lease
// means that the bytes are no longer read, so that the slot or buffer can be
// reused. It is destroyed once, on any thread, without locks held.
class Lease {
 public:
  virtual ~Lease() = default;
};

// The transport's end of a stream. All calls arrive from one thread of the
// pipeline, one after another, without locks held. Implementations must not
// block. They may call the pipeline.
class StreamPeer {
 public:
  // Reports that the first `count` chunks of the stream are durable.
  // `conflict_count` is the number of records since the stream was opened that
  // the run already contains with different bytes. Neither number ever
  // decreases.
  virtual void Commit(uint64_t count, uint64_t conflict_count) = 0;

  // Tells the producer to record what `policy` specifies: encoded
  // capture::Policies.
  virtual void SetCapturePolicy(const std::string& policy) = 0;

  // Reports that there is room again after an Offer returned kWait.
  virtual void Resume() = 0;

  // Reports that the stream is over. Every accepted chunk has been committed
  // or, if the storage failed, dropped. The status is OK if the transport
  // finished the stream. Called exactly once, as the last call; the peer may be
  // destroyed in it.
  virtual void End(const absl::Status& status) = 0;

 protected:
  ~StreamPeer() = default;
};

// Memory that the producer of a stream shares with the daemon. Thread-safe.
class StreamMemory {
 public:
  virtual ~StreamMemory() = default;

  virtual uint64_t size_bytes() const = 0;
  // Returns the bytes of chunks that the producer has published and that are
  // not durable yet, as reported by the producer; at most size_bytes().
  virtual uint64_t used_bytes() const = 0;
};

// An open stream; the handle that its transport holds.
struct IngestStream;
using StreamHandle = std::shared_ptr<IngestStream>;

// Returns whether `token_end` is valid, that is, whether a producer can have
// begun exactly the tokens below it.
constexpr bool IsTokenEnd(int64_t token_end) {
  return token_end >= 0 && token_end <= kTokenMax + 1;
}

// The destination of the chunks of all transports. Thread-safe.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;

  // Opens a stream. If its run does not exist, creates it. If it exists,
  // `spec.if_exists` decides what happens and may select another run. Chunks
  // must name the run in the result. A refused stream does not change any run.
  // The pipeline calls `peer` from here on; `peer` must remain valid until its
  // End is called. Blocks on the store, on concurrent opening, sealing or
  // deletion of the same run, and on chunks in flight from an earlier
  // connection of the same producer, but not on commits of other runs.
  //
  // Errors: INVALID_ARGUMENT (RANK_OUT_OF_RANGE, FIELD_INVALID);
  // PERMISSION_DENIED (ROLE_REFUSED; NOT_OWNER: the run belongs to another
  // caller); FAILED_PRECONDITION (RUN_SEALED, RUN_RESTORING; RUN_EXISTS: the
  // run has another world size, or tensors of this rank from another producer);
  // ALREADY_EXISTS (RANK_BUSY; RUN_EXISTS: another rank of the launch has
  // replaced the run with a later recording); RESOURCE_EXHAUSTED
  // (STREAMS_EXHAUSTED); UNAVAILABLE (NOT_SERVING); those of the store.
  struct Opened {
    StreamHandle stream;
    // The run of the stream, which may differ from the requested one.
    std::string run;
    uint64_t committed_chunk_count = 0;
    // See storage::RunInfo. Later policies are passed to
    // StreamPeer::SetCapturePolicy.
    std::string capture_policy;
    // For IfExists::kAppend, the token at which the producer should begin. It
    // is the same for all ranks of a job.
    int64_t first_token = 0;
  };
  virtual absl::StatusOr<Opened> Open(const StreamSpec& spec,
                                      StreamPeer& peer) = 0;

  enum class Offered {
    kMore,   // Accepted; the next chunk may be offered.
    kWait,   // Accepted; wait for StreamPeer::Resume.
    kEnded,  // Not accepted; StreamPeer::End was or will be called.
  };

  // Accepts one chunk, which `lease` keeps valid and which begins at a multiple
  // of kChunkAlignment. Never blocks on I/O. Only one thread at a time may call
  // this for a stream. A refused chunk ends the stream after all earlier chunks
  // are committed.
  virtual Offered Offer(const StreamHandle& stream,
                        std::span<const std::byte> bytes,
                        std::unique_ptr<Lease> lease) = 0;
  // Like the above, for a chunk whose head has been validated.
  virtual Offered Offer(const StreamHandle& stream, chunk::Chunk chunk,
                        std::unique_ptr<Lease> lease) = 0;

  // Reports on behalf of the producer how many records the stream has received
  // so far, and the end of the tokens that it has begun. IsTokenEnd(token_end)
  // must be true.
  virtual void ReportCoverage(const StreamHandle& stream,
                              const StreamCoverage& coverage,
                              int64_t token_end) = 0;

  // Sets the memory that contains the chunks of the stream, for reports about
  // the stream. Kept as long as the stream.
  virtual void NoteMemory(const StreamHandle& stream,
                          std::shared_ptr<const StreamMemory> memory) = 0;

  // Ends the stream with `status` after everything in flight is committed. Only
  // the first call has an effect.
  virtual void Finish(const StreamHandle& stream,
                      const absl::Status& status) = 0;
};

}  // namespace msitd::ingest
