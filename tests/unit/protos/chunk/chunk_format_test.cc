// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_format.h"

#include <cstddef>

#include "gtest/gtest.h"
#include "protos/base/limits.h"

namespace msitd::chunk {
namespace {

// docs/format/chunk.md states the same numbers.
TEST(ChunkFormatTest, HeaderOffsetsAreFrozen) {
  EXPECT_EQ(offsetof(ChunkHeader, magic), 0u);
  EXPECT_EQ(offsetof(ChunkHeader, version), 4u);
  EXPECT_EQ(offsetof(ChunkHeader, reserved_1), 6u);
  EXPECT_EQ(offsetof(ChunkHeader, head_bytes), 8u);
  EXPECT_EQ(offsetof(ChunkHeader, record_count), 12u);
  EXPECT_EQ(offsetof(ChunkHeader, payload_bytes), 16u);
  EXPECT_EQ(offsetof(ChunkHeader, run), 24u);
  EXPECT_EQ(offsetof(ChunkHeader, stream_id), 32u);
  EXPECT_EQ(offsetof(ChunkHeader, chunk_sequence), 40u);
  EXPECT_EQ(offsetof(ChunkHeader, client_time_ns), 48u);
  EXPECT_EQ(offsetof(ChunkHeader, rank), 56u);
  EXPECT_EQ(offsetof(ChunkHeader, flags), 60u);
  EXPECT_EQ(offsetof(ChunkHeader, run_id), 64u);
  EXPECT_EQ(offsetof(ChunkHeader, segment_id), 72u);
  EXPECT_EQ(offsetof(ChunkHeader, frame_offset), 80u);
  EXPECT_EQ(offsetof(ChunkHeader, durable_bytes), 88u);
  EXPECT_EQ(offsetof(ChunkHeader, frame_sequence), 96u);
  EXPECT_EQ(offsetof(ChunkHeader, receive_time_ns), 104u);
  EXPECT_EQ(offsetof(ChunkHeader, store_id), 112u);
  EXPECT_EQ(offsetof(ChunkHeader, head_checksum), 120u);
}

TEST(ChunkFormatTest, DescriptorOffsetsAreFrozen) {
  EXPECT_EQ(offsetof(RecordDescriptor, sequence), 0u);
  EXPECT_EQ(offsetof(RecordDescriptor, token), 8u);
  EXPECT_EQ(offsetof(RecordDescriptor, op), 16u);
  EXPECT_EQ(offsetof(RecordDescriptor, index), 24u);
  EXPECT_EQ(offsetof(RecordDescriptor, device), 32u);
  EXPECT_EQ(offsetof(RecordDescriptor, call), 40u);
  EXPECT_EQ(offsetof(RecordDescriptor, io), 44u);
  EXPECT_EQ(offsetof(RecordDescriptor, dtype), 45u);
  EXPECT_EQ(offsetof(RecordDescriptor, dim_count), 46u);
  EXPECT_EQ(offsetof(RecordDescriptor, flags), 47u);
  EXPECT_EQ(offsetof(RecordDescriptor, dims_offset), 48u);
  EXPECT_EQ(offsetof(RecordDescriptor, reserved_1), 52u);
  EXPECT_EQ(offsetof(RecordDescriptor, payload_offset), 56u);
  EXPECT_EQ(offsetof(RecordDescriptor, payload_bytes), 64u);
  EXPECT_EQ(offsetof(RecordDescriptor, tensor_bytes), 72u);
  EXPECT_EQ(offsetof(RecordDescriptor, part_offset), 80u);
  EXPECT_EQ(offsetof(RecordDescriptor, placement), 88u);
  EXPECT_EQ(offsetof(RecordDescriptor, summary), 96u);
  EXPECT_EQ(offsetof(RecordDescriptor, hash), 184u);
  EXPECT_EQ(offsetof(RecordDescriptor, sample_hash), 200u);
  EXPECT_EQ(offsetof(RecordDescriptor, bytes_segment_id), 208u);
  EXPECT_EQ(offsetof(RecordDescriptor, bytes_offset), 216u);
}

TEST(ChunkFormatTest, ExtraOffsetsAreFrozen) {
  EXPECT_EQ(offsetof(RecordExtra, value), 0u);
  EXPECT_EQ(offsetof(RecordExtra, stack), 8u);
  EXPECT_EQ(offsetof(RecordExtra, alias_op), 16u);
  EXPECT_EQ(offsetof(RecordExtra, alias_index), 24u);
  EXPECT_EQ(offsetof(RecordExtra, alias_call), 32u);
  EXPECT_EQ(offsetof(RecordExtra, alias_io), 36u);
  EXPECT_EQ(offsetof(RecordExtra, flags), 37u);
  EXPECT_EQ(offsetof(RecordExtra, reserved), 38u);
  EXPECT_EQ(sizeof(RecordExtra), 40u);
}

TEST(ChunkFormatTest, DigestOffsetsAreFrozen) {
  EXPECT_EQ(offsetof(Digest, summary), 0u);
  EXPECT_EQ(offsetof(Digest, hash), 88u);
  EXPECT_EQ(sizeof(Digest), 104u);
}

TEST(ChunkFormatTest, ConstantsAreFrozen) {
  EXPECT_EQ(kMagic, 0x4354534du);
  EXPECT_EQ(kPlainVersion, 1);
  EXPECT_EQ(kExtrasVersion, 2);
  EXPECT_EQ(kStatisticsVersion, 3);
  EXPECT_EQ(kVersion, 4);
  EXPECT_EQ(kKindMask, 7);
  EXPECT_EQ(kRequiresGradMask, 24);
  EXPECT_EQ(kExtraFlag, 32);
  EXPECT_EQ(kDigestFlag, 64);
  EXPECT_EQ(kFalseDigestFlag, 128);
  EXPECT_EQ(kDigestSpan, 128u);
  EXPECT_EQ(kAliasFlag, 1);
  EXPECT_EQ(kValueFlag, 2);
  EXPECT_EQ(kChunkAlignment, 4096u);
  EXPECT_EQ(kRecordAlignment, 64u);
  EXPECT_EQ(kPartBytes, 4194304u);
}

}  // namespace
}  // namespace msitd::chunk
