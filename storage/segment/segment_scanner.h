// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "storage/env/env.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// A range of bytes where a frame was expected but not found.
struct SegmentGap {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string reason;  // Why there is no valid frame at `offset`.
};

// A frame with a validated head. Its payload was not read.
struct FoundFrame {
  uint64_t offset = 0;
  chunk::Chunk chunk;
  // False if the file ends within the payload.
  bool is_complete = false;

  uint64_t end() const { return offset + chunk.frame_bytes(); }
};

// Next element of a segment: an optional gap, followed by a frame or the end.
struct ScanStep {
  std::optional<SegmentGap> gap;
  std::optional<FoundFrame> frame;
};

// Iterates over the frames of one segment by reading their heads.
//
// A frame is valid if its head passes every check, states this position of this
// segment of this store, and has a frame sequence above that of the previous
// frame. If there is no valid frame, the scanner tries the end of the frame
// that the damaged head states, then every page up to the end of the file.
//
// Thread-compatible. The file is borrowed.
class SegmentScanner {
 public:
  struct ScanRange {
    uint64_t store_id = 0;
    SegmentId segment{};
    uint64_t begin_bytes = kSegmentHeaderBytes;
    uint64_t end_bytes = 0;           // The size of the file.
    uint64_t frame_sequence_min = 0;  // Frames with lower numbers are stale.
  };

  SegmentScanner(File& file, const ScanRange& place)
      : file_(file),
        place_(place),
        offset_(AlignUp(place.begin_bytes, kChunkAlignment)),
        frame_sequence_min_(place.frame_sequence_min) {}

  // Returns the next element; both members are empty at the end.
  //
  // Errors: those of reading. Invalid bytes are gaps, not errors.
  absl::StatusOr<ScanStep> Next();

 private:
  // Returns the frame at `offset`; DATA_LOSS if there is none.
  absl::StatusOr<FoundFrame> FrameAt(uint64_t offset);
  // As FrameAt, but returns nothing instead of DATA_LOSS.
  absl::StatusOr<std::optional<FoundFrame>> TryFrameAt(uint64_t offset);
  absl::StatusOr<std::optional<FoundFrame>> FindBehind(uint64_t offset);
  // Returns the end of the frame at `offset` according to its header, which may
  // be damaged.
  absl::StatusOr<std::optional<uint64_t>> ClaimedEnd(uint64_t offset);
  absl::Status ReadFully(uint64_t offset, std::span<std::byte> out);

  File& file_;
  const ScanRange place_;
  uint64_t offset_;
  uint64_t frame_sequence_min_;
  AlignedBuffer window_;
};

// True if `bytes` match their hash, or if the record has no bytes of its own.
// `bytes` are the stored data of `record` in the frame of `chunk`: all of its
// bytes, its sample, or nothing.
bool IsIntact(const chunk::Chunk& chunk, const chunk::RecordDescriptor& record,
              std::span<const std::byte> bytes);

// Reads the stored payload of `frame` into `buffer` and checks every record
// against its hash.
//
// Errors: DATA_LOSS with FRAME_CORRUPT, which names the record that fails;
// those of reading.
absl::Status VerifyPayload(File& file, const FoundFrame& frame,
                           AlignedBuffer& buffer);

}  // namespace msitd::storage
