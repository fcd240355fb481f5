// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "storage/env/env.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// What the store stamps on a frame; the writer adds the frame's place.
struct FrameStamp {
  RunId run{};
  uint64_t frame_sequence = 0;
  int64_t receive_time_ns = 0;
};

// Owns one segment file and appends frames to it.
//
// Made by the store, which owns it. Single-sequence. The first error stays:
// every later Write and Sync returns it, and the file is never synced again,
// because a sync that follows a failed one may claim success for pages that the
// kernel has dropped.
//
//   Open --Place, Write, Sync--> Open --Seal--> Sealed
//     \------ I/O error ---> Failed --Seal--^
class SegmentWriter {
 public:
  // Makes the file at `path` and writes its header, which is durable after the
  // first Sync. `header.checksum` is filled in. Room for about `expected_bytes`
  // is preallocated, step by step.
  static absl::StatusOr<std::unique_ptr<SegmentWriter>> Create(
      Env& env, const std::string& path, const SegmentHeader& header,
      uint64_t expected_bytes, bool direct);

  // Stamps all of `chunk` but its checksum. Its place is behind the frame that
  // was placed last.
  void Place(chunk::Chunk& chunk, const FrameStamp& stamp);

  // Stamps the checksums of `chunks` and writes them. They were placed in this
  // order, directly behind what is written. Payloads that are kept whole are
  // not copied; samples are gathered and their hashes stamped first. Then
  // `stamp` is called, before the checksum is.
  using Stamp = absl::FunctionRef<void(chunk::Chunk& chunk)>;
  absl::Status Write(std::span<chunk::Chunk* const> chunks, Stamp stamp);

  // Makes everything written durable.
  absl::Status Sync();

  // Ends the segment: cuts the file at `end_bytes`, which gives preallocated
  // room back. A failure is ignored, because readers of the log can tell bytes
  // that stay behind the end.
  void Seal(uint64_t end_bytes);

  // Sets whether room is preallocated; at first it is.
  void set_asks_ahead(bool asks_ahead) { asks_ahead_ = asks_ahead; }
  // Returns how many of the next `bytes` bytes have no preallocated room.
  uint64_t UnbackedBytes(uint64_t bytes) const {
    const uint64_t backed = std::max(preallocated_bytes_, written_bytes_);
    return written_bytes_ + bytes - std::min(written_bytes_ + bytes, backed);
  }

  SegmentId id() const { return SegmentId{header_.segment_id}; }
  uint64_t placed_bytes() const { return placed_bytes_; }
  uint64_t written_bytes() const { return written_bytes_; }
  uint64_t durable_bytes() const { return durable_bytes_; }
  const absl::Status& status() const { return status_; }

 private:
  SegmentWriter(std::unique_ptr<File> file, const SegmentHeader& header,
                uint64_t expected_bytes)
      : file_(std::move(file)),
        header_(header),
        expected_bytes_(expected_bytes) {}

  void MakeRoom(uint64_t end);

  // Returns the payload that the frame is to hold, with its padding.
  std::span<const std::byte> PayloadToKeep(chunk::Chunk& chunk);

  // Writes what was gathered, up to `end`.
  absl::Status WritePieces(uint64_t end);

  absl::Status Latch(absl::Status status, std::string_view what);

  std::unique_ptr<File> file_;
  const SegmentHeader header_;
  const uint64_t expected_bytes_;
  uint64_t placed_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t durable_bytes_ = 0;
  uint64_t preallocated_bytes_ = 0;
  bool asks_ahead_ = true;
  bool can_ask_ahead_ = true;                       // Not refused yet.
  std::vector<std::span<const std::byte>> pieces_;  // To be written next.
  AlignedBuffer samples_;  // Of one frame: no longer than a payload.
  absl::Status status_;
};

}  // namespace msitd::storage
