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

// Bytes of a segment file, version 1 (docs/format/segment.md): one page with
// a SegmentHeader, then frames, back to back. A frame is a chunk with its
// stamped fields filled in. All numbers are little-endian.
namespace msitd::storage {

inline constexpr uint32_t kSegmentMagic = 0x5354534d;  // "MSTS"
inline constexpr uint16_t kSegmentVersion = 1;

// Where the first frame begins.
inline constexpr uint64_t kSegmentHeaderBytes = kChunkAlignment;

struct SegmentHeader {
  uint32_t magic = kSegmentMagic;
  uint16_t version = kSegmentVersion;
  uint16_t reserved_1 = 0;
  uint64_t store_id = 0;
  uint64_t segment_id = 0;
  // The segment written before this one, 0 if none, and the end of the bytes
  // acknowledged in it: frames behind that end were given up.
  uint64_t previous_segment_id = 0;
  uint64_t previous_end_bytes = 0;
  int64_t create_time_ns = 0;
  // The low half of the XXH3-128 of the page, this field being zero.
  uint64_t checksum = 0;
};

static_assert(sizeof(SegmentHeader) == 56);
static_assert(offsetof(SegmentHeader, store_id) == 8);
static_assert(offsetof(SegmentHeader, checksum) == 48);
static_assert(std::is_trivially_copyable_v<SegmentHeader>);

// Writes `header` with its checksum and zeros to `page`, which is
// kSegmentHeaderBytes long.
void EncodeSegmentHeader(SegmentHeader header, std::span<std::byte> page);

// The inverse. DATA_LOSS if the page is short or does not pass its checks.
absl::StatusOr<SegmentHeader> DecodeSegmentHeader(
    std::span<const std::byte> page);

// "00000042.seg".
std::string SegmentFileName(SegmentId id);

// The inverse; nothing for names of other files.
std::optional<SegmentId> ParseSegmentFileName(std::string_view name);

constexpr uint64_t ToNumber(RunId id) { return static_cast<uint64_t>(id); }

}  // namespace msitd::storage
