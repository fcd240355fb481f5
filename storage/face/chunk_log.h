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

// Writes chunks to a store, and records how much of each stream is durable.
//
// Chunks for which Append returned OK survive the end of the process and a
// power failure: their frames are on the disk, and entries that the index loses
// are rebuilt from them. Frames are never rewritten. A tensor whose frame was
// torn by a crash is never visible.
//
// Thread-safe, except for Append and Probe, which must not be called
// concurrently.
class ChunkLog {
 public:
  virtual ~ChunkLog() = default;

  // Writes the chunks as frames in the given order, makes them durable with one
  // sync, and then indexes them. The `summary` and `hash` of every record must
  // be filled in, except those of aliases; these and the headers are stamped
  // here. An alias whose original does not exist is counted but not indexed.
  // The first tensor of a key is kept: a later record of the same key and part
  // is counted but not indexed. Sets Chunk::conflict_count of each chunk to the
  // number of its records that differ from the first ones.
  //
  // After an error, no chunk of this call is visible. The current segment is
  // abandoned at its last durable byte, and the next call starts another one.
  //
  // While segments with frames that the index lacks are missing, this call and
  // the following ones fail with UNAVAILABLE (STORAGE_FAILED).
  //
  // Errors: NOT_FOUND for a run that does not exist and FAILED_PRECONDITION
  // (RUN_SEALED) for a sealed one, both before anything is written;
  // RESOURCE_EXHAUSTED (DISK_FULL); UNAVAILABLE (STORAGE_FAILED).
  virtual absl::Status Append(std::span<chunk::Chunk> chunks) = 0;

  // Determines, after a failed Append, whether the next one could succeed:
  // checks that kProbeRoomBytes are free, resumes the index, and durably
  // creates the next segment if none is in use. Errors: those of Append.
  static constexpr uint64_t kProbeRoomBytes = uint64_t{16} << 20;
  virtual absl::Status Probe() = 0;

  // Returns how many chunks of the stream are durable, which is the sequence
  // number of the next one. A stream belongs to a rank of a run: the same id
  // for another rank or run is another stream. 0 for an unknown stream or run.
  // Kept until the run is sealed.
  virtual absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                                       int32_t rank,
                                                       uint64_t stream_id) = 0;

  // True if the run has durable chunks of the rank from another stream, even
  // one of the same process. False for an unknown run or a sealed one.
  virtual absl::StatusOr<bool> HasChunksOfOthers(std::string_view run,
                                                 int32_t rank,
                                                 uint64_t stream_id) = 0;

  // Stores the newest coverage that a stream reports, and returns the increase
  // of each of its counts. On return, the report survives the end of the
  // process. It survives a power failure after the next change of any run has
  // returned.
  virtual absl::StatusOr<StreamCoverage> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) = 0;
};

}  // namespace msitd::storage
