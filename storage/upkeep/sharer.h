// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/aligned_buffer.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_reader.h"
#include "storage/segment/segment_scanner.h"
#include "storage/upkeep/copy_table.h"

namespace msitd::storage {

// Makes equal parts of a run share their bytes
// (docs/decisions/0009-equal-bytes-are-shared-afterwards.md): of two equal
// parts, the later one keeps its bytes, and the space of the earlier one is
// freed in the file system.
//
// For each part of the log, its hash determines the last earlier place with the
// same bytes, in copies_ or in the index. Both copies are read and compared. If
// they are equal, a step durably records in the index that the bytes are now at
// the later place and that the earlier range is not needed. Only after that are
// holes punched there. After a crash, the index lists the ranges that still
// have to be punched.
//
// Processes the segments once, in the order of the log. Accesses only segments
// that receive no more frames and whose entries are on disk, so that recovery
// never needs discarded bytes.
//
// Must be used by one thread at a time.
class Sharer {
 public:
  // `index`, `env` and `reader` must outlive this object.
  Sharer(ChunkIndex& index, Env& env, SegmentReader& reader,
         std::string segment_directory)
      : index_(index),
        env_(env),
        reader_(reader),
        segment_directory_(std::move(segment_directory)) {}

  struct Outcome {
    uint64_t shared_bytes = 0;   // Bytes freed in the file system.
    uint64_t unequal_count = 0;  // Parts with equal hashes but different bytes.
    bool is_done = true;
    // The segments whose size on disk changed, with their new size.
    std::vector<std::pair<SegmentId, uint64_t>> changed;
  };

  // Processes the segments below `sealed_end`, which receive no more frames.
  // Examines at most kHeadsPerStep frames, and reads at most one pair of parts
  // beyond kBytesPerStep.
  //
  // Errors: those of the file system and of the index. The next call continues.
  absl::StatusOr<Outcome> Step(uint64_t sealed_end);

 private:
  static constexpr int kHeadsPerStep = 1024;
  static constexpr uint64_t kBytesPerStep = uint64_t{64} << 20;

  absl::StatusOr<Outcome> TryStep(uint64_t sealed_end);
  // Begins at the position in the index where earlier steps, possibly of an
  // earlier process, ended.
  absl::Status Load();
  // Examines frames of segment_ up to its end, or to the end of the step.
  absl::Status LookInSegment(uint64_t sealed_end, Outcome& outcome);
  absl::Status LookAtFrame(const FoundFrame& frame, Outcome& outcome);
  absl::Status LookAtPart(const SharedBytes& part, const BytePlace& place,
                          Outcome& outcome);
  // Returns the last place of the same bytes before the examined part; nothing
  // if they were discarded or never occurred before.
  absl::StatusOr<std::optional<BytePlace>> LastPlace(const SharedBytes& part);
  // True if both places have the bytes of `part`. False also if either cannot
  // be read.
  bool AreEqual(const SharedBytes& part, const BytePlace& a,
                const BytePlace& b);
  bool IsExpired(const BytePlace& place, RunId run);
  // Frees the space of unfreed_.
  absl::Status Free(Outcome& outcome);
  absl::Status FreeInSegment(std::span<const ByteRange> ranges,
                             Outcome& outcome);
  std::string PathOf(uint64_t segment) const;

  ChunkIndex& index_;
  Env& env_;
  SegmentReader& reader_;
  const std::string segment_directory_;

  bool is_loaded_ = false;
  bool has_holes_ = true;  // False after the file system refused to punch one.
  uint64_t segment_ = 0;   // The segment to examine next.
  uint64_t offset_ = 0;    // Offset of the next frame in it.
  // After the last segment that was found. Higher numbers may still be given to
  // segments, so the index never records them as examined.
  uint64_t known_end_ = 0;
  uint64_t indexed_end_ = 0;  // Lower segments are in the index on disk.
  CopyTable copies_;
  std::vector<ByteRange> unfreed_;

  // For the current step.
  int heads_left_ = 0;
  uint64_t bytes_left_ = 0;
  ChunkIndex::Sharing found_;

  AlignedBuffer first_;
  AlignedBuffer second_;
};

}  // namespace msitd::storage
