// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/stream_coverage.h"
#include "protos/chunk/chunk.h"

namespace msitd::storage {

// The way of chunks into a store, and what it knows of the streams they come
// by.
//
// What Append returns OK for survives the end of the process and of power:
// its frames are on the disk, and the index is rebuilt from them where it had
// not been. Frames are never rewritten. A tensor whose frame was torn by a
// crash is never shown.
//
// Thread-safe, but for Append and Probe: one thread at a time for both.
class ChunkLog {
 public:
  virtual ~ChunkLog() = default;

  // Writes the chunks as frames in the order given, makes them durable with
  // one sync, then indexes them. Every record's `summary` and `hash` have been
  // filled in; the headers are stamped here. The first tensor of a key stays:
  // a later record of the same key and part is counted, not indexed; chunks
  // hear how many of theirs have other bytes (Chunk::conflict_count).
  //
  // After an error nothing of this call is visible. The segment in use is
  // given up at its last durable byte and the next call begins another.
  //
  // Errors: NOT_FOUND or FAILED_PRECONDITION (RUN_SEALED) for a run that is
  // not there or sealed, before anything is written; RESOURCE_EXHAUSTED
  // (DISK_FULL); UNAVAILABLE (STORAGE_FAILED).
  virtual absl::Status Append(std::span<chunk::Chunk> chunks) = 0;

  // Finds out whether Append would be let through, after one that was not:
  // makes the next segment, durably, and sees whether the disk has more than
  // kProbeRoomBytes. Errors as Append's.
  static constexpr uint64_t kProbeRoomBytes = uint64_t{16} << 20;
  virtual absl::Status Probe() = 0;

  // Returns how many chunks of the stream are durable: the sequence number of
  // the next one. A stream is one of a rank of a run: the same id of another
  // rank or run is another stream. 0 for an unknown stream or run. Kept until
  // the run is sealed.
  virtual absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                                       int32_t rank,
                                                       uint64_t stream_id) = 0;

  // True if chunks of the rank are durable that came from another process than
  // the stream does; see protos/base/stream_id.h. False for an unknown run, or
  // a sealed one.
  virtual absl::StatusOr<bool> HasChunksOfOthers(std::string_view run,
                                                 int32_t rank,
                                                 uint64_t stream_id) = 0;

  // Keeps the newest coverage that a stream tells, and returns by how much the
  // dropped_count of its run has risen. Survives the process on return, and
  // the loss of power like the change of a run that comes next.
  virtual absl::StatusOr<uint64_t> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) = 0;
};

}  // namespace msitd::storage
