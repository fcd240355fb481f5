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

// Takes chunks into a store, and knows how far their streams have come.
//
// Chunks that Append returned OK for survive the end of the process and the
// loss of power: their frames are on the disk, and entries that the index lost
// are rebuilt from them. Frames are never rewritten. A tensor whose frame was
// torn by a crash is never shown.
//
// Thread-safe, but for Append and Probe: one thread at a time for both.
class ChunkLog {
 public:
  virtual ~ChunkLog() = default;

  // Writes the chunks as frames in the order given, makes them durable with one
  // sync, then indexes them. The `summary` and `hash` of every record have been
  // filled in, except those of aliases; these and the headers are stamped here.
  // An alias whose original is not there is counted, not indexed. The first
  // tensor of a key stays: a later record of the same key and part is counted,
  // not indexed. Each chunk is told how many of its records have other bytes
  // than the first ones (Chunk::conflict_count).
  //
  // After an error nothing of this call is visible. The segment in use is
  // given up at its last durable byte and the next call begins another.
  //
  // While segments with frames that the index lacks are missing, nothing is
  // accepted: UNAVAILABLE (STORAGE_FAILED), also from the calls below.
  //
  // Errors: NOT_FOUND for a run that does not exist and FAILED_PRECONDITION
  // (RUN_SEALED) for one that is sealed, both before anything is written;
  // RESOURCE_EXHAUSTED (DISK_FULL); UNAVAILABLE (STORAGE_FAILED).
  virtual absl::Status Append(std::span<chunk::Chunk> chunks) = 0;

  // After an Append that failed, finds out whether the next one could succeed:
  // checks that kProbeRoomBytes are free, resumes the index, and makes the next
  // segment durably if none is in use. Errors: as Append.
  static constexpr uint64_t kProbeRoomBytes = uint64_t{16} << 20;
  virtual absl::Status Probe() = 0;

  // Returns how many chunks of the stream are durable: the sequence number of
  // the next one. A stream is one of a rank of a run: the same id of another
  // rank or run is another stream. 0 for an unknown stream or run. Kept until
  // the run is sealed.
  virtual absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                                       int32_t rank,
                                                       uint64_t stream_id) = 0;

  // True if the run holds durable chunks of the rank from another stream, even
  // if that one belonged to the same process. False for an unknown run, or a
  // sealed one.
  virtual absl::StatusOr<bool> HasChunksOfOthers(std::string_view run,
                                                 int32_t rank,
                                                 uint64_t stream_id) = 0;

  // Keeps the newest coverage that a stream reports, and returns by how much
  // each of its counts has risen. On return the report survives the
  // end of the process; it survives the loss of power once the next change of
  // any run has returned.
  virtual absl::StatusOr<StreamCoverage> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) = 0;
};

}  // namespace msitd::storage
