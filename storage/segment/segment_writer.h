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
#include "storage/segment/log_frame.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// Fields that the store stamps on a frame; the writer adds the position.
struct FrameStamp {
  RunId run{};
  uint64_t frame_sequence = 0;
  int64_t receive_time_ns = 0;
};

// Owns one segment file and appends frames to it.
//
// Created and owned by the store. Must be used by one thread at a time. Errors
// are permanent: after the first error, every later Write and Sync returns it,
// and the file is never synced again, because a sync that follows a failed one
// may succeed although the kernel has dropped the pages.
//
//   Open --Place, Write, Sync--> Open --Seal--> Sealed
//     \------ I/O error ---> Failed --Seal--^
class SegmentWriter {
 public:
  // Creates the file at `path` and writes its header, which is durable after
  // the first Sync. Fills in `header.checksum`. Preallocates space for about
  // `expected_bytes`, in steps.
  static absl::StatusOr<std::unique_ptr<SegmentWriter>> Create(
      Env& env, const std::string& path, const SegmentHeader& header,
      uint64_t expected_bytes, bool direct);

  // Stamps all fields of `chunk` except its checksum. Its position is after the
  // frame that was placed last.
  void Place(chunk::Chunk& chunk, const FrameStamp& stamp);

  // Stamps the checksums of `frames` and writes them. They must have been
  // placed in this order, directly after the written frames. Payloads that are
  // stored completely are not copied; samples are gathered and their hashes
  // stamped first. `stamp` is called after that, before the checksum is
  // stamped.
  using Stamp = absl::FunctionRef<void(chunk::Chunk& chunk)>;
  absl::Status Write(std::span<const LogFrame> frames, Stamp stamp);

  // Makes all written frames durable.
  absl::Status Sync();

  // Ends the segment by truncating the file to `end_bytes`, which frees
  // preallocated space. Failures are ignored, because readers of the log detect
  // bytes after the end.
  void Seal(uint64_t end_bytes);

  // Sets whether to preallocate space; initially true.
  void set_asks_ahead(bool asks_ahead) { asks_ahead_ = asks_ahead; }
  // Returns how many of the next `bytes` bytes are not preallocated.
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

  // Returns the payload that the frame will store, with its padding.
  std::span<const std::byte> PayloadToKeep(chunk::Chunk& chunk);

  // Writes the gathered pieces, up to `end`.
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
  bool can_ask_ahead_ = true;                       // False after the file
                                                    // system refused it.
  std::vector<std::span<const std::byte>> pieces_;  // Pieces to write next.
  AlignedBuffer samples_;  // For one frame; at most as long as a payload.
  absl::Status status_;
};

}  // namespace msitd::storage
