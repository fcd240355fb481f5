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

// Bytes of a chunk, versions 1 to 4. One shape for shared memory, for the gRPC
// stream and for a frame of a segment; docs/format/chunk.md has a worked
// example. All numbers are little-endian.
//
//   ChunkHeader | RecordDescriptor[record_count] | text and dims | zeros
//   payload: record 0 | pad | record 1 | ... | zeros
//
// The first line is the head: `head_bytes` bytes, filled with zeros to a
// multiple of kChunkAlignment. The payload begins there and is filled in the
// same way.
namespace msitd::chunk {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kMagic = 0x4354534d;  // "MSTC"
inline constexpr uint16_t kVersion = 4;
// No record has flags.
inline constexpr uint16_t kPlainVersion = 1;
// No record is of kind statistics.
inline constexpr uint16_t kExtrasVersion = 2;
// No record has a digest.
inline constexpr uint16_t kStatisticsVersion = 3;

// A range of bytes of the head, behind the descriptor table. `offset` counts
// from the start of the head.
struct TextRef {
  uint32_t offset = 0;
  uint32_t length = 0;
};

// Bits of ChunkHeader::flags. Others are refused.
//
// Summaries and hashes are kept, but not the payload: the frame of the chunk is
// its head alone. The descriptors still describe the payload.
inline constexpr uint32_t kSummaryOnlyFlag = 1;
// In place of the payload, the frame holds the samples of its records. The
// descriptors still describe the payload. Not together with kSummaryOnlyFlag.
inline constexpr uint32_t kSampleFlag = 2;
// The daemon stamps one of these two; a producer sets neither.
//
// The bytes were hashed and then written from memory that the producer shared,
// and could have changed in between.
inline constexpr uint32_t kSharedMemoryFlag = 4;
// The bytes were hashed and written from memory that only the daemon has.
inline constexpr uint32_t kOwnMemoryFlag = 8;

struct ChunkHeader {
  uint32_t magic = kMagic;
  uint16_t version = kPlainVersion;
  uint16_t reserved_1 = 0;
  uint32_t head_bytes = 0;
  uint32_t record_count = 0;
  uint64_t payload_bytes = 0;
  TextRef run;
  // Chosen at random by the producer, once for each stream of chunks that it
  // opens. (stream_id, chunk_sequence) makes a resent chunk recognisable.
  uint64_t stream_id = 0;
  // 0, 1, 2, ... within the stream.
  uint64_t chunk_sequence = 0;
  // Producer's clock at the first record, nanoseconds since the Unix epoch.
  int64_t client_time_ns = 0;
  int32_t rank = 0;
  uint32_t flags = 0;

  // The store stamps everything below. A producer leaves zeros; anything else
  // is overwritten.
  uint64_t run_id = 0;
  uint64_t segment_id = 0;
  // Where the frame begins in its segment: a frame found elsewhere is stale.
  uint64_t frame_offset = 0;
  // How many bytes of this segment were durable when the frame was written.
  // Frames that end there or before are known to be whole.
  uint64_t durable_bytes = 0;
  // 1, 2, 3, ... over all segments of the store.
  uint64_t frame_sequence = 0;
  int64_t receive_time_ns = 0;
  uint64_t store_id = 0;
  // XXH3-64 of the first head_bytes bytes, this field being zero.
  uint64_t head_checksum = 0;
};

static_assert(sizeof(ChunkHeader) == 128);
static_assert(offsetof(ChunkHeader, run) == 24);
static_assert(offsetof(ChunkHeader, stream_id) == 32);
static_assert(offsetof(ChunkHeader, rank) == 56);
static_assert(offsetof(ChunkHeader, run_id) == 64);
static_assert(offsetof(ChunkHeader, head_checksum) == 120);
static_assert(std::is_trivially_copyable_v<ChunkHeader>);

// Bits of RecordDescriptor::flags. Others are refused, and in a chunk of
// kPlainVersion these too.
//
// The msitd::RecordKind.
inline constexpr uint8_t kKindMask = 7;
// Whether the tensor requires a gradient: 0 unknown, 1 no, 2 yes.
inline constexpr int kRequiresGradShift = 3;
inline constexpr uint8_t kRequiresGradMask = 3 << kRequiresGradShift;
// A RecordExtra lies behind the dims.
inline constexpr uint8_t kExtraFlag = 32;
// The record's payload begins with the Digest that the producer made. Of an
// alias, which has no payload: its original's digest is such a claim; the store
// says so, whatever the producer put there.
inline constexpr uint8_t kDigestFlag = 64;
// Stamped by the daemon: the bytes that came with the digest have another one.
// Summary and hash are those of the bytes.
inline constexpr uint8_t kFalseDigestFlag = 128;

// One tensor, one part of a tensor larger than kPartBytes, or one record of
// another kind.
struct RecordDescriptor {
  // Position in the execution order of the rank; parts of one tensor share it.
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
  // `dim_count` int64 numbers in the head, at a multiple of 8.
  uint32_t dims_offset = 0;
  uint32_t reserved_1 = 0;
  // Where the record's bytes lie in the payload, a multiple of
  // kRecordAlignment; and how many there are: none of an alias. With
  // kDigestFlag, the first are the digest; see kDigestSpan.
  uint64_t payload_offset = 0;
  uint64_t payload_bytes = 0;
  // Bytes of the whole tensor, row-major without gaps; and where the part
  // begins in it, a multiple of kPartBytes. Both are 0 for statistics.
  uint64_t tensor_bytes = 0;
  uint64_t part_offset = 0;
  // A placement of protos/base/placement.h; zeros for a tensor that is no
  // shard.
  TextRef placement;

  // Stamped by the daemon, like the end of the header.
  Summary summary;
  ContentHash hash;
  // XXH3-64 of the record's sample in a frame of samples; else 0.
  uint64_t sample_hash = 0;
  // Of an alias: the place of its bytes, which are those of another record, in
  // the segments of the store; else 0. Stamped by the store.
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

// Where the bytes of a record with a digest begin in its payload, if they came
// too. Its payload is either the digest alone, or this and all of its bytes.
inline constexpr uint64_t kDigestSpan = 128;
static_assert(kDigestSpan % kRecordAlignment == 0 &&
              kDigestSpan >= sizeof(Digest));

// Returns how many bytes of its tensor the record is about, whether they came
// or not.
constexpr uint64_t PartBytes(const RecordDescriptor& record) {
  const uint64_t rest = record.tensor_bytes - record.part_offset;
  return rest < kPartBytes ? rest : kPartBytes;
}

constexpr bool HasDigest(const RecordDescriptor& record) {
  return (record.flags & kDigestFlag) != 0;
}

// True if nobody but the producer has seen the bytes: summary and hash are what
// it says.
constexpr bool IsClaimed(const RecordDescriptor& record) {
  return HasDigest(record) && record.payload_bytes <= sizeof(Digest);
}

// Returns the lowest version of a chunk in which a record may have such flags.
// A producer writes the lowest version that suffices, for older daemons.
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

// Bits of RecordExtra::flags. Others are refused.
//
// The record's bytes are those of an earlier record of the same rank, device
// and token, whose op, call, io and index the extra names.
inline constexpr uint8_t kAliasFlag = 1;
// There is a value, which may be empty.
inline constexpr uint8_t kValueFlag = 2;

// What some records have besides. Begins at a multiple of 8, right behind the
// record's dims. What is absent is zero.
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

// Returns where the RecordExtra of a record that has one begins in the head.
constexpr uint64_t ExtraOffset(const RecordDescriptor& record) {
  return record.dims_offset + uint64_t{record.dim_count} * sizeof(int64_t);
}

// Moves the texts of a record by `by` bytes, as its head is laid out.
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
