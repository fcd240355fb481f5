// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/statusor.h"
#include "protos/base/limits.h"
#include "storage/face/types.h"
#include "storage/segment/segment_id.h"

// The byte layout of a segment file, version 1 (docs/format/segment.md): one
// page with a SegmentHeader, then frames without gaps. A frame is a chunk whose
// stamped fields are filled in. All numbers are little-endian.
//
// The problem. A store must keep up with the ranks of a node, lose no
// acknowledged chunk in a crash or power failure, and free space when runs are
// deleted.
//
// Why a log of segments. One file per tensor would cost a file creation and a
// sync for each of millions of tensors. A database for the payload would write
// every byte several times. A log writes each byte once and sequentially, and a
// single sync makes the chunks of all ranks durable. The log is split into
// segments so that space can be freed: a segment is deleted when no run needs
// it any more, and bytes of a part of its runs can be freed by punching holes.
//
// Why frames describe themselves. Each frame carries its run, names, hashes,
// its own offset and the sequence number of the frame. The index can therefore
// be rebuilt without other data, and RocksDB need not sync every batch. The
// stamped offset and sequence number expose stale frames that a reused block
// may still contain. The header of a segment also records where the previous
// one ended, which distinguishes the torn tail of a crash, which was never
// acknowledged, from damage to durable bytes.
//
// The costs. Frames of several runs are interleaved in one segment, so
// deleting a run frees its space only in steps (see storage/upkeep). Padding to
// whole pages wastes space in small chunks. After a crash, the frames that the
// index lacks must be read again (see storage/log_replay.h).
namespace msitd::storage {

inline constexpr uint32_t kSegmentMagic = 0x5354534d;  // "MSTS"
inline constexpr uint16_t kSegmentVersion = 1;

// Offset of the first frame.
inline constexpr uint64_t kSegmentHeaderBytes = kChunkAlignment;

struct SegmentHeader {
  uint32_t magic = kSegmentMagic;
  uint16_t version = kSegmentVersion;
  uint16_t reserved_1 = 0;
  uint64_t store_id = 0;
  uint64_t segment_id = 0;
  // The previously written segment, 0 if none, and the end of its acknowledged
  // bytes. Frames after that end were abandoned.
  uint64_t previous_segment_id = 0;
  uint64_t previous_end_bytes = 0;
  int64_t create_time_ns = 0;
  // The low half of the XXH3-128 of the page, computed with this field set to
  // zero.
  uint64_t checksum = 0;
};

static_assert(sizeof(SegmentHeader) == 56);
static_assert(offsetof(SegmentHeader, store_id) == 8);
static_assert(offsetof(SegmentHeader, checksum) == 48);
static_assert(std::is_trivially_copyable_v<SegmentHeader>);

// Writes `header` with its checksum, followed by zeros, to `page`, which must
// be kSegmentHeaderBytes long.
void EncodeSegmentHeader(SegmentHeader header, std::span<std::byte> page);

// Inverse of EncodeSegmentHeader. Returns DATA_LOSS if the page is too short or
// fails its checks.
absl::StatusOr<SegmentHeader> DecodeSegmentHeader(
    std::span<const std::byte> page);

// Returns the file name of a segment, such as "00000042.seg".
std::string SegmentFileName(SegmentId id);

// Inverse of SegmentFileName; nothing for names of other files.
std::optional<SegmentId> ParseSegmentFileName(std::string_view name);

constexpr uint64_t ToNumber(RunId id) { return static_cast<uint64_t>(id); }

}  // namespace msitd::storage
