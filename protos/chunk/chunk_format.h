// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "protos/base/summary.h"

// The byte layout of a chunk, versions 1 to 4. docs/format/chunk.md specifies
// every field and has a worked example. All numbers are little-endian.
//
//   ChunkHeader | RecordDescriptor[record_count] | text and dims | zeros
//   payload: record 0 | pad | record 1 | ... | zeros
//
// The first line is the head. It has `head_bytes` bytes, followed by zeros up
// to a multiple of kChunkAlignment. The payload follows and is padded in the
// same way.
//
// Why one format. A tensor crosses three boundaries: from the producer's shared
// memory or a gRPC stream to the daemon, from the daemon to a segment file, and
// from the file back to a reader. A format of its own for each boundary would
// be smaller in places, but every conversion would copy the payload. Instead
// the same bytes are used everywhere: the daemon fills in the stamped fields of
// the head and writes the payload to disk directly from the memory that the
// producer filled. Hence the padding: both head and payload begin at multiples
// of 4096, as O_DIRECT requires, and each record at a multiple of 64, a cache
// line, for the SIMD kernels.
//
// Why the head is separate. A producer that shares memory can change it at any
// time, so nothing in it can be trusted in place. The daemon copies the head,
// which is small, validates the copy and uses only that (Chunk::FromProducer).
// It never copies the payload, whose bytes it only hashes and writes. The head
// also lets a reader list and index a frame without reading its payload, and
// describes the frame completely, so that the index can be rebuilt from segment
// files.
//
// Why fixed-size descriptors. The alternative is a serialized message, such as
// a protobuf. Fixed-size structs can be checked and used in place, without a
// parser in the producer, which depends on the standard library only. Names are
// interned in the text of the chunk, so a repeated name costs 8 bytes.
//
// The costs. A descriptor has 224 bytes, half of them for the summary and
// the hashes; a small chunk wastes up to two pages of padding; and every
// incompatible change needs a new version. A producer writes the lowest version
// that can express the chunk, because older daemons refuse later ones.
namespace msitd::chunk {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kMagic = 0x4354534d;  // "MSTC"
inline constexpr uint16_t kVersion = 4;
// Lowest version; no record may have flags.
inline constexpr uint16_t kPlainVersion = 1;
// Adds kinds of records, extras and aliases, but not kind statistics.
inline constexpr uint16_t kExtrasVersion = 2;
// Adds records of kind statistics, but not digests.
inline constexpr uint16_t kStatisticsVersion = 3;

// A range of bytes of the head, after the descriptor table. `offset` counts
// from the start of the head.
struct TextRef {
  uint32_t offset = 0;
  uint32_t length = 0;
};

// Bits of ChunkHeader::flags. Other bits are refused.
//
// Only summaries and hashes are stored: the frame of the chunk consists of its
// head. The descriptors still describe the original payload.
inline constexpr uint32_t kSummaryOnlyFlag = 1;
// The frame stores the samples of the records instead of the payload. The
// descriptors still describe the original payload. Cannot be combined with
// kSummaryOnlyFlag.
inline constexpr uint32_t kSampleFlag = 2;
// The daemon stamps one of the following two flags; a producer sets neither.
//
// The bytes were hashed and then written from memory that the producer shares,
// and could have changed in between.
inline constexpr uint32_t kSharedMemoryFlag = 4;
// The bytes were hashed and written from memory that only the daemon can
// access.
inline constexpr uint32_t kOwnMemoryFlag = 8;

struct ChunkHeader {
  uint32_t magic = kMagic;
  uint16_t version = kPlainVersion;
  uint16_t reserved_1 = 0;
  uint32_t head_bytes = 0;
  uint32_t record_count = 0;
  uint64_t payload_bytes = 0;
  TextRef run;
  // Random number that the producer chooses for each stream of chunks that it
  // opens. A resent chunk is recognized by (stream_id, chunk_sequence).
  uint64_t stream_id = 0;
  // Number of the chunk in the stream, from 0.
  uint64_t chunk_sequence = 0;
  // Producer's clock at the first record, in nanoseconds since the Unix epoch.
  int64_t client_time_ns = 0;
  int32_t rank = 0;
  uint32_t flags = 0;

  // The store stamps all following fields. A producer leaves zeros; other
  // values are overwritten.
  uint64_t run_id = 0;
  uint64_t segment_id = 0;
  // Offset of the frame in its segment. A frame found at another offset is
  // stale.
  uint64_t frame_offset = 0;
  // Number of bytes of this segment that were durable when the frame was
  // written. Frames that end at or before this offset are known to be complete.
  uint64_t durable_bytes = 0;
  // Number of the frame over all segments of the store, from 1.
  uint64_t frame_sequence = 0;
  int64_t receive_time_ns = 0;
  uint64_t store_id = 0;
  // XXH3-64 of the first head_bytes bytes, computed with this field set to
  // zero.
  uint64_t head_checksum = 0;
};

static_assert(sizeof(ChunkHeader) == 128);
static_assert(offsetof(ChunkHeader, run) == 24);
static_assert(offsetof(ChunkHeader, stream_id) == 32);
static_assert(offsetof(ChunkHeader, rank) == 56);
static_assert(offsetof(ChunkHeader, run_id) == 64);
static_assert(offsetof(ChunkHeader, head_checksum) == 120);
static_assert(std::is_trivially_copyable_v<ChunkHeader>);

// Bits of RecordDescriptor::flags. Other bits are refused. A chunk of
// kPlainVersion may not have any of them.
//
// The msitd::RecordKind.
inline constexpr uint8_t kKindMask = 7;
// Whether the tensor requires a gradient: 0 unknown, 1 no, 2 yes.
inline constexpr int kRequiresGradShift = 3;
inline constexpr uint8_t kRequiresGradMask = 3 << kRequiresGradShift;
// A RecordExtra follows the dims.
inline constexpr uint8_t kExtraFlag = 32;
// The record's payload begins with a Digest that the producer computed. For an
// alias, which has no payload, the flag means that the digest of its original
// was computed by the producer; the store sets it, regardless of the producer's
// value.
inline constexpr uint8_t kDigestFlag = 64;
// Stamped by the daemon: the bytes that were sent with the digest have another
// digest. Summary and hash are those of the bytes.
inline constexpr uint8_t kFalseDigestFlag = 128;

// A tensor, a part of a tensor larger than kPartBytes, or a record of another
// kind.
struct RecordDescriptor {
  // Position in the execution order of the rank. All parts of a tensor have the
  // same position.
  uint64_t sequence = 0;
  int64_t token = 0;
  TextRef op;
  TextRef index;
  TextRef device;
  int32_t call = 0;
  uint8_t io = 0;     // msitd::Io
  uint8_t dtype = 0;  // msitd::DType
  uint8_t dim_count = 0;
  uint8_t flags = 0;
  // Offset in the head of `dim_count` int64 numbers; a multiple of 8.
  uint32_t dims_offset = 0;
  uint32_t reserved_1 = 0;
  // Offset of the record's bytes in the payload, a multiple of
  // kRecordAlignment, and their number, which is 0 for an alias. With
  // kDigestFlag, the digest is at the start of these bytes; see kDigestSpan.
  uint64_t payload_offset = 0;
  uint64_t payload_bytes = 0;
  // Size of the whole tensor in bytes, row-major without gaps, and the offset
  // of this part in it, a multiple of kPartBytes. Both are 0 for statistics.
  uint64_t tensor_bytes = 0;
  uint64_t part_offset = 0;
  // A placement in the format of protos/base/placement.h; all zero for a tensor
  // that is not a shard.
  TextRef placement;

  // The daemon stamps all following fields.
  Summary summary;
  ContentHash hash;
  // XXH3-64 of the record's sample in a frame of samples; otherwise 0.
  uint64_t sample_hash = 0;
  // For an alias: the location in the segments of the store of the bytes that
  // it shares with another record; otherwise 0. Stamped by the store.
  uint64_t bytes_segment_id = 0;
  uint64_t bytes_offset = 0;
};

static_assert(sizeof(RecordDescriptor) == 224);
static_assert(offsetof(RecordDescriptor, op) == 16);
static_assert(offsetof(RecordDescriptor, call) == 40);
static_assert(offsetof(RecordDescriptor, dims_offset) == 48);
static_assert(offsetof(RecordDescriptor, payload_offset) == 56);
static_assert(offsetof(RecordDescriptor, placement) == 88);
static_assert(offsetof(RecordDescriptor, summary) == 96);
static_assert(offsetof(RecordDescriptor, hash) == 184);
static_assert(offsetof(RecordDescriptor, sample_hash) == 200);
static_assert(offsetof(RecordDescriptor, bytes_segment_id) == 208);
static_assert(std::is_trivially_copyable_v<RecordDescriptor>);

constexpr RecordKind KindOf(const RecordDescriptor& record) {
  return static_cast<RecordKind>(record.flags & kKindMask);
}

// Offset of the bytes of a record with a digest in its payload, if they were
// sent. The payload of such a record is either the digest only, or the digest,
// padding and all bytes.
inline constexpr uint64_t kDigestSpan = 128;
static_assert(kDigestSpan % kRecordAlignment == 0 &&
              kDigestSpan >= sizeof(Digest));

// Returns how many bytes of its tensor the record describes, whether or not
// they were sent.
constexpr uint64_t PartBytes(const RecordDescriptor& record) {
  const uint64_t rest = record.tensor_bytes - record.part_offset;
  return rest < kPartBytes ? rest : kPartBytes;
}

constexpr bool HasDigest(const RecordDescriptor& record) {
  return (record.flags & kDigestFlag) != 0;
}

// True if only the producer has had access to the bytes, so that summary and
// hash are its claims.
constexpr bool IsClaimed(const RecordDescriptor& record) {
  return HasDigest(record) && record.payload_bytes <= sizeof(Digest);
}

// Returns the lowest version of a chunk in which a record may have such flags.
// A producer writes the lowest version that suffices, to support older daemons.
constexpr uint16_t VersionFor(uint8_t record_flags) {
  if (record_flags == 0) return kPlainVersion;
  if ((record_flags & (kDigestFlag | kFalseDigestFlag)) != 0) return kVersion;
  const auto kind = static_cast<RecordKind>(record_flags & kKindMask);
  return kind == RecordKind::kStatistics ? kStatisticsVersion : kExtrasVersion;
}

// Returns whether the tensor requires a gradient; nothing if that is unknown.
constexpr std::optional<bool> RequiresGradOf(const RecordDescriptor& record) {
  const int number = (record.flags & kRequiresGradMask) >> kRequiresGradShift;
  if (number == 0) return std::nullopt;
  return number == 2;
}

// Bits of RecordExtra::flags. Other bits are refused.
//
// The record's bytes are those of an earlier record of the same rank, device
// and token, which is identified by the op, call, io and index of the extra.
inline constexpr uint8_t kAliasFlag = 1;
// The record has a value, which may be empty.
inline constexpr uint8_t kValueFlag = 2;

// Optional fields of a record. It begins at a multiple of 8, directly after the
// record's dims. Absent fields are zero.
struct RecordExtra {
  TextRef value;
  TextRef stack;
  TextRef alias_op;
  TextRef alias_index;
  int32_t alias_call = 0;
  uint8_t alias_io = 0;  // msitd::Io
  uint8_t flags = 0;
  uint16_t reserved = 0;

  constexpr bool is_alias() const { return (flags & kAliasFlag) != 0; }
  constexpr bool has_value() const { return (flags & kValueFlag) != 0; }
};

static_assert(sizeof(RecordExtra) == 40);
static_assert(offsetof(RecordExtra, alias_call) == 32);
static_assert(std::is_trivially_copyable_v<RecordExtra>);

// Returns the offset in the head of the record's RecordExtra. Requires that the
// record has one.
constexpr uint64_t ExtraOffset(const RecordDescriptor& record) {
  return record.dims_offset + uint64_t{record.dim_count} * sizeof(int64_t);
}

// Moves the offsets of a record's texts and dims by `by` bytes. Used when the
// head is laid out.
constexpr void ShiftTexts(RecordDescriptor& record, uint32_t by) {
  record.op.offset += by;
  record.index.offset += by;
  record.device.offset += by;
  if (record.placement.length > 0) record.placement.offset += by;
  record.dims_offset += by;
}

constexpr void ShiftTexts(RecordExtra& extra, uint32_t by) {
  if (extra.has_value()) extra.value.offset += by;
  if (extra.stack.length > 0) extra.stack.offset += by;
  if (!extra.is_alias()) return;
  extra.alias_op.offset += by;
  extra.alias_index.offset += by;
}

}  // namespace msitd::chunk
