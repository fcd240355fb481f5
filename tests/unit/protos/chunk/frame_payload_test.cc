// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/frame_payload.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

using testing::ElementsAreArray;

std::vector<std::byte> WithFlags(std::vector<std::byte> bytes, uint32_t flags) {
  ChunkHeader header = HeaderOf(bytes);
  header.flags = flags;
  PutHeader(bytes, header);
  return bytes;
}

// Returns tensors whose lengths are close to that of a sample, a tensor without
// elements, and the last part of a tensor of several parts.
std::vector<SampleRecord> MixedRecords() {
  std::vector<SampleRecord> records = {
      WholeTensor(DType::kFloat32, {3000}, 1),
      WholeTensor(DType::kUint8, {5}, 2),
      WholeTensor(DType::kFloat32, {0, 7}, 3),
      WholeTensor(DType::kBfloat16, {1025}, 4),
      WholeTensor(DType::kComplex128, {1024}, 5)};
  SampleRecord& tail = records.emplace_back();
  tail.dtype = DType::kInt8;
  tail.tensor_bytes = kPartBytes + 9000;
  tail.dims = {static_cast<int64_t>(tail.tensor_bytes)};
  tail.part_offset = kPartBytes;
  tail.payload = WholeTensor(DType::kInt8, {9000}, 6).payload;
  return records;
}

// Returns every step-th element of the tensor that is in the record.
std::vector<std::byte> NaiveSample(const SampleRecord& record) {
  const uint64_t bytes = ElementBytes(record.dtype);
  const uint64_t count = record.tensor_bytes / bytes;
  const uint64_t step = std::max<uint64_t>((count + 1023) / 1024, 1);
  const uint64_t begin = record.part_offset / bytes;
  const uint64_t end = begin + record.payload.size() / bytes;
  std::vector<std::byte> out;
  for (uint64_t i = 0; i < count; i += step) {
    if (i < begin || i >= end) continue;
    const auto at = record.payload.begin() + (i - begin) * bytes;
    out.insert(out.end(), at, at + bytes);
  }
  return out;
}

TEST(FramePayloadTest, SamplesLieOneBehindTheOther) {
  const std::vector<SampleRecord> records = MixedRecords();
  const std::vector<std::byte> bytes =
      WithFlags(BuildChunk(records), kSampleFlag);
  auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->kept(), Kept::kSample);
  // The buffer was used for another chunk, and is larger than necessary.
  AlignedBuffer buffer(uint64_t{1} << 20);
  std::fill_n(buffer.data(), buffer.size(), std::byte{0xee});
  const std::span<const std::byte> kept = chunk->GatherSamples(buffer);
  EXPECT_EQ(kept.size(), chunk->stored_payload_bytes());
  EXPECT_EQ(kept.size() % kChunkAlignment, 0u);
  EXPECT_EQ(chunk->frame_bytes(), chunk->head().size() + kept.size());
  EXPECT_LT(kept.size(), chunk->payload().size());
  FramePayload payload(chunk->header());
  uint64_t end = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const RecordDescriptor& record = chunk->records()[i];
    const FramePayload::RecordBytes place = payload.Next(record);
    EXPECT_EQ(place.offset, AlignUp(end, kRecordAlignment));
    // Padding consists of zeros.
    for (; end < place.offset; ++end) EXPECT_EQ(kept[end], std::byte{0});
    const auto sample = kept.subspan(place.offset, place.bytes);
    EXPECT_THAT(sample, ElementsAreArray(NaiveSample(records[i]))) << i;
    EXPECT_EQ(record.sample_hash, HashSample(sample));
    end += place.bytes;
    EXPECT_EQ(payload.end(), end);
    // The descriptor still describes the original payload.
    EXPECT_EQ(record.payload_bytes, records[i].payload.size());
  }
  for (; end < kept.size(); ++end) EXPECT_EQ(kept[end], std::byte{0});
  EXPECT_FALSE(StoredPayloadBytes(chunk->header()).has_value());
}

TEST(FramePayloadTest, ReaderOfTheFrameFindsTheSameLength) {
  const std::vector<std::byte> bytes =
      WithFlags(BuildChunk(MixedRecords()), kSampleFlag);
  auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok());
  AlignedBuffer buffer;
  const uint64_t kept = chunk->GatherSamples(buffer).size();
  chunk->StampChecksum();
  AlignedBuffer head(chunk->head().size());
  std::copy(chunk->head().begin(), chunk->head().end(), head.data());
  const auto frame = Chunk::FromFrame(std::move(head));
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->kept(), Kept::kSample);
  EXPECT_EQ(frame->stored_payload_bytes(), kept);
  for (size_t i = 0; i < frame->records().size(); ++i) {
    EXPECT_EQ(frame->records()[i].sample_hash, chunk->records()[i].sample_hash);
  }
}

TEST(FramePayloadTest, SampleOfEmptyTensorsTakesNoRoom) {
  const std::vector<SampleRecord> records = {
      WholeTensor(DType::kFloat32, {0}, 1)};
  const std::vector<std::byte> bytes =
      WithFlags(BuildChunk(records), kSampleFlag);
  auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok());
  AlignedBuffer buffer;
  EXPECT_TRUE(chunk->GatherSamples(buffer).empty());
  EXPECT_EQ(chunk->frame_bytes(), chunk->head().size());
}

TEST(FramePayloadTest, SamplesAreNeverLongerThanThePayload) {
  // The maximum number of records, which are so short that their samples
  // contain all elements.
  std::vector<SampleRecord> records(kChunkRecordsMax,
                                    WholeTensor(DType::kComplex128, {256}, 1));
  const std::vector<std::byte> bytes =
      WithFlags(BuildChunk(records), kSampleFlag);
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->payload().size(), kChunkPayloadBytesMax);
  EXPECT_EQ(chunk->stored_payload_bytes(), kChunkPayloadBytesMax);
}

TEST(FramePayloadTest, WholePayloadLiesAsItCameAndSummariesHaveNone) {
  const std::vector<std::byte> bytes = BuildChunk(MixedRecords());
  for (const uint32_t flags : {uint32_t{0}, kSummaryOnlyFlag}) {
    const std::vector<std::byte> flagged = WithFlags(bytes, flags);
    const auto chunk = Chunk::FromProducer(flagged);
    ASSERT_TRUE(chunk.ok());
    FramePayload payload(chunk->header());
    for (const RecordDescriptor& record : chunk->records()) {
      const FramePayload::RecordBytes place = payload.Next(record);
      EXPECT_EQ(place.offset, record.payload_offset);
      EXPECT_EQ(place.bytes, flags == 0 ? record.payload_bytes : 0);
    }
  }
}

TEST(FramePayloadTest, BuilderAsksForSamples) {
  AlignedBuffer memory(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder(memory.span());
  const SampleRecord record = WholeTensor(DType::kFloat32, {2000}, 1);
  builder.Start("run", 2, 5, 9);
  builder.KeepSamples();
  const std::span<std::byte> out = builder.Add(record.spec());
  ASSERT_EQ(out.size(), record.payload.size());
  std::copy(record.payload.begin(), record.payload.end(), out.begin());
  const auto chunk = Chunk::FromProducer(builder.Finish(1));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->kept(), Kept::kSample);
  builder.Start("run", 2, 5, 10);
  ASSERT_NE(builder.Add(record.spec()).data(), nullptr);
  EXPECT_EQ(Chunk::FromProducer(builder.Finish(1))->kept(), Kept::kAll);
}

}  // namespace
}  // namespace msitd::chunk
