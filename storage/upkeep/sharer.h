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
// parts, the one that came last keeps its bytes, and the room of the other's is
// given back to the file system.
//
// For each part that the log holds, the hash finds the last place before it
// with the same bytes, in copies_ or in the index. Both copies are read and
// compared. If they are equal, a step writes to the index, durably, that the
// bytes now lie at the later place and that the earlier range is not needed.
// Only then are holes punched there; after a crash the index says which ranges
// are still to be punched.
//
// Goes through the segments once, in the order of the log. Touches only
// segments that take no more frames and whose entries are on disk, so that no
// recovery ever looks for bytes that have gone.
//
// Single-sequence.
class Sharer {
 public:
  // `index`, `env` and `reader` outlive it.
  Sharer(ChunkIndex& index, Env& env, SegmentReader& reader,
         std::string segment_directory)
      : index_(index),
        env_(env),
        reader_(reader),
        segment_directory_(std::move(segment_directory)) {}

  struct Outcome {
    uint64_t shared_bytes = 0;   // Given back to the file system.
    uint64_t unequal_count = 0;  // Parts with equal hashes and other bytes.
    bool is_done = true;
    // The segments whose size on disk changed, and that size.
    std::vector<std::pair<SegmentId, uint64_t>> changed;
  };

  // Looks at the segments below `sealed_end`, which take no more frames. Looks
  // at no more than kHeadsPerStep frames, and reads at most one pair of parts
  // beyond kBytesPerStep.
  //
  // Errors: those of the file system and of the index. The next call goes on.
  absl::StatusOr<Outcome> Step(uint64_t sealed_end);

 private:
  static constexpr int kHeadsPerStep = 1024;
  static constexpr uint64_t kBytesPerStep = uint64_t{64} << 20;

  absl::StatusOr<Outcome> TryStep(uint64_t sealed_end);
  // Begins where the index says that earlier steps, maybe of an earlier
  // process, ended.
  absl::Status Load();
  // Looks at frames of segment_ up to its end, or to the end of the step.
  absl::Status LookInSegment(uint64_t sealed_end, Outcome& outcome);
  absl::Status LookAtFrame(const FoundFrame& frame, Outcome& outcome);
  absl::Status LookAtPart(const SharedBytes& part, const BytePlace& place,
                          Outcome& outcome);
  // Returns the last place, before the part that is looked at, at which its
  // bytes lie; nothing if they were given up or never came before.
  absl::StatusOr<std::optional<BytePlace>> LastPlace(const SharedBytes& part);
  // True if both places hold the bytes of `part`. False also if either cannot
  // be read.
  bool AreEqual(const SharedBytes& part, const BytePlace& a,
                const BytePlace& b);
  bool IsExpired(const BytePlace& place, RunId run);
  // Gives back the room of unfreed_.
  absl::Status Free(Outcome& outcome);
  absl::Status FreeInSegment(std::span<const ByteRange> ranges,
                             Outcome& outcome);
  std::string PathOf(uint64_t segment) const;

  ChunkIndex& index_;
  Env& env_;
  SegmentReader& reader_;
  const std::string segment_directory_;

  bool is_loaded_ = false;
  bool has_holes_ = true;  // False once the file system refused one.
  uint64_t segment_ = 0;   // The segment to look at next.
  uint64_t offset_ = 0;    // Of the next frame in it.
  // Behind the last segment that was found: numbers from here on may still be
  // given to segments, so the index never counts them as looked at.
  uint64_t known_end_ = 0;
  uint64_t indexed_end_ = 0;  // The index has segments below on disk.
  CopyTable copies_;
  std::vector<ByteRange> unfreed_;

  // Of the step under way.
  int heads_left_ = 0;
  uint64_t bytes_left_ = 0;
  ChunkIndex::Sharing found_;

  AlignedBuffer first_;
  AlignedBuffer second_;
};

}  // namespace msitd::storage
