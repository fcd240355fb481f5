// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "protos/base/summary.h"

// Bytes of a chunk, version 1. One shape for shared memory, for the gRPC
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
inline constexpr uint16_t kVersion = 1;

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
  uint16_t version = kVersion;
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

// One tensor, or one part of a tensor larger than kPartBytes.
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
  // kRecordAlignment; and how many there are.
  uint64_t payload_offset = 0;
  uint64_t payload_bytes = 0;
  // Bytes of the whole tensor, row-major without gaps; and where the part
  // begins in it, a multiple of kPartBytes.
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
  uint64_t reserved_3[2] = {};
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
static_assert(std::is_trivially_copyable_v<RecordDescriptor>);

}  // namespace msitd::chunk
