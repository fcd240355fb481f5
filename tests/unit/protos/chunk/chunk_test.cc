// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

AlignedBuffer CopyOf(std::span<const std::byte> bytes) {
  AlignedBuffer out(bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.data());
  return out;
}

// Returns a head as stored, with all stamps set.
std::vector<std::byte> StampedHead() {
  const std::vector<std::byte> bytes = SmallChunk();
  auto chunk = Chunk::FromProducer(bytes);
  EXPECT_TRUE(chunk.ok()) << chunk.status();
  chunk->header().run_id = 3;
  chunk->header().segment_id = 4;
  chunk->header().frame_offset = 8192;
  chunk->header().frame_sequence = 77;
  chunk->records()[1].summary.count = 4;
  chunk->records()[1].hash = {1, 2};
  chunk->StampChecksum();
  return {chunk->head().begin(), chunk->head().end()};
}

TEST(ChunkFromProducerTest, ClearsWhatTheProducerPutIntoStamps) {
  std::vector<std::byte> bytes = SmallChunk();
  constexpr size_t kStamps = offsetof(ChunkHeader, run_id);
  std::memset(bytes.data() + kStamps, 0xee, sizeof(ChunkHeader) - kStamps);
  constexpr size_t kRecordStamps = offsetof(RecordDescriptor, summary);
  for (size_t i = 0; i < 3; ++i) {
    std::memset(bytes.data() + sizeof(ChunkHeader) +
                    i * sizeof(RecordDescriptor) + kRecordStamps,
                0xee, sizeof(RecordDescriptor) - kRecordStamps);
  }
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const ChunkHeader& header = chunk->header();
  for (size_t i = kStamps; i < sizeof(ChunkHeader); ++i) {
    EXPECT_EQ(reinterpret_cast<const std::byte*>(&header)[i], std::byte{0});
  }
  for (const RecordDescriptor& record : chunk->records()) {
    EXPECT_EQ(record.summary, Summary{});
    EXPECT_EQ(record.hash, ContentHash{});
    EXPECT_EQ(record.sample_hash, 0u);
    EXPECT_EQ(record.bytes_segment_id, 0u);
    EXPECT_EQ(record.bytes_offset, 0u);
  }
}

TEST(ChunkFromProducerTest, DoesNotSeeLaterWritesToTheHead) {
  std::vector<std::byte> bytes = SmallChunk();
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const uint64_t head_span =
      AlignUp(chunk->header().head_bytes, kChunkAlignment);
  std::memset(bytes.data(), 0xff, head_span);
  EXPECT_EQ(chunk->run(), "run");
  EXPECT_EQ(chunk->Text(chunk->records()[2].op), "layer.2");
  EXPECT_EQ(chunk->Dims(chunk->records()[0])[1], 3);
}

TEST(ChunkFromProducerTest, DoesNotKeepWhatLiesInThePaddingOfTheHead) {
  std::vector<std::byte> bytes = SmallChunk();
  const ChunkHeader header = HeaderOf(bytes);
  const uint64_t head_span = AlignUp(header.head_bytes, kChunkAlignment);
  std::memset(bytes.data() + header.head_bytes, 0xee,
              head_span - header.head_bytes);
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  for (const std::byte b : chunk->head().subspan(header.head_bytes)) {
    ASSERT_EQ(b, std::byte{0});
  }
}

TEST(ChunkFromProducerTest, TakesBytesAtAnyAddress) {
  const std::vector<std::byte> bytes = SmallChunk();
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> room(bytes.size() + shift);
    std::copy(bytes.begin(), bytes.end(),
              room.begin() + static_cast<std::ptrdiff_t>(shift));
    const auto chunk = Chunk::FromProducer(std::span(room).subspan(shift));
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->PayloadOf(chunk->records()[1]).size(), 32u);
  }
}

TEST(ChunkFromFrameTest, KeepsStamps) {
  const auto chunk = Chunk::FromFrame(CopyOf(StampedHead()));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->header().run_id, 3u);
  EXPECT_EQ(chunk->header().frame_offset, 8192u);
  EXPECT_EQ(chunk->header().frame_sequence, 77u);
  EXPECT_EQ(chunk->records()[1].summary.count, 4u);
  EXPECT_EQ(chunk->records()[1].hash, (ContentHash{1, 2}));
  EXPECT_TRUE(chunk->payload().empty());
}

TEST(ChunkFromFrameTest, AnyBitFlipInTheHeadIsDataLoss) {
  const std::vector<std::byte> head = StampedHead();
  const uint32_t head_bytes = HeaderOf(head).head_bytes;
  for (size_t bit = 0; bit < size_t{head_bytes} * 8; ++bit) {
    std::vector<std::byte> spoiled = head;
    spoiled[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    const absl::Status status = Chunk::FromFrame(CopyOf(spoiled)).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << bit;
    ASSERT_EQ(Reason(status), "FRAME_CORRUPT") << bit;
  }
}

TEST(ChunkFromFrameTest, ShortOrForeignBytesAreDataLoss) {
  std::vector<std::byte> zeros(kChunkAlignment);
  EXPECT_EQ(Chunk::FromFrame(CopyOf(zeros)).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Chunk::FromFrame(AlignedBuffer()).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ChunkFromFrameTest, HeadLongerThanWhatWasReadIsDataLoss) {
  std::vector<SampleRecord> records(40, WholeTensor(DType::kUint8, {1}, 1));
  auto chunk = Chunk::FromProducer(BuildChunk(records));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  chunk->StampChecksum();
  ASSERT_GT(chunk->head().size(), kChunkAlignment);
  EXPECT_EQ(*FrameHeadSpan(chunk->head().first(128)), chunk->head().size());
  const auto cut =
      Chunk::FromFrame(CopyOf(chunk->head().first(kChunkAlignment)));
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kDataLoss);
}

TEST(FrameHeadSpanTest, RefusesWhatCannotBeginAFrame) {
  const std::vector<std::byte> head = StampedHead();
  const std::span<const std::byte> begin(head.data(), sizeof(ChunkHeader));
  EXPECT_EQ(*FrameHeadSpan(begin), kChunkAlignment);
  EXPECT_EQ(FrameHeadSpan(begin.first(127)).status().code(),
            absl::StatusCode::kDataLoss);
  std::vector<std::byte> spoiled(begin.begin(), begin.end());
  spoiled[0] = std::byte{0};
  EXPECT_EQ(Reason(FrameHeadSpan(spoiled).status()), "FRAME_CORRUPT");
}

TEST(PartCountTest, IsAtLeastOne) {
  EXPECT_EQ(PartCount(0), 1u);
  EXPECT_EQ(PartCount(1), 1u);
  EXPECT_EQ(PartCount(kPartBytes), 1u);
  EXPECT_EQ(PartCount(kPartBytes + 1), 2u);
  EXPECT_EQ(PartCount(3 * kPartBytes), 3u);
}

TEST(ContentHashTest, IsTheXxh3OfTheBytes) {
  // Published test vector: XXH3_128bits of empty input.
  EXPECT_EQ(HashBytes({}),
            (ContentHash{0x6001c324468d497f, 0x99aa06d3014798d8}));
}

TEST(ContentHashTest, OfOnePartIsThatPartsHash) {
  const ContentHash part = {5, 6};
  EXPECT_EQ(CombinePartHashes({&part, 1}), part);
}

TEST(ContentHashTest, OfPartsIsTheHashOfTheirHashesInOrder) {
  const ContentHash parts[] = {{1, 2}, {3, 4}};
  const ContentHash swapped[] = {{3, 4}, {1, 2}};
  const uint64_t words[] = {1, 2, 3, 4};
  EXPECT_EQ(CombinePartHashes(parts),
            HashBytes(std::as_bytes(std::span(words))));
  EXPECT_NE(CombinePartHashes(parts), CombinePartHashes(swapped));
}

}  // namespace
}  // namespace msitd::chunk
