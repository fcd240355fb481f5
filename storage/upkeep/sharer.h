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
#include "protos/base/aligned_buffer.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_reader.h"
#include "storage/segment/segment_scanner.h"
#include "storage/upkeep/copy_table.h"

namespace msitd::storage {

// Has parts of a run that are equal share their bytes
// (docs/decisions/0009-equal-bytes-are-shared-afterwards.md): of two, the one
// that came last keeps them, and the room of the other is given back to the
// file system.
//
// Goes through the segments once, in the order of the log. Touches only those
// that take no more frames and whose entries the index has on disk, so that no
// recovery ever looks for what has gone.
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
    // Bytes that segments take on disk now.
    std::vector<std::pair<SegmentId, uint64_t>> changed;
  };

  // Looks at no more than kHeadsPerStep frames and reads no more than
  // kBytesPerStep bytes, and a pair of parts, of the segments below
  // `sealed_end`, which take no more frames.
  //
  // Errors: those of the file system and of the index. The next call goes on.
  absl::StatusOr<Outcome> Step(uint64_t sealed_end);

 private:
  static constexpr int kHeadsPerStep = 1024;
  static constexpr uint64_t kBytesPerStep = uint64_t{64} << 20;

  absl::StatusOr<Outcome> TryStep(uint64_t sealed_end);
  // Takes up where the index says that an earlier step, or another process,
  // came to.
  absl::Status Load();
  // Looks at frames of segment_ up to its end, or to the end of the step.
  absl::Status LookInSegment(uint64_t sealed_end, Outcome& outcome);
  absl::Status LookAtFrame(const FoundFrame& frame, Outcome& outcome);
  absl::Status LookAtPart(const SharedBytes& part, const BytePlace& place,
                          Outcome& outcome);
  // The last place, before those that are looked at, at which the bytes are.
  absl::StatusOr<std::optional<BytePlace>> LastPlace(const SharedBytes& part);
  // False as well if either cannot be read.
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
  bool has_holes_ = true;  // The file system, as far as is known.
  uint64_t segment_ = 0;   // The one to be looked at next.
  uint64_t offset_ = 0;    // Of the next frame in it.
  // Behind the last one that is there: numbers from here on may come again.
  uint64_t known_end_ = 0;
  uint64_t indexed_end_ = 0;  // Segments below are in the index, on disk.
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
