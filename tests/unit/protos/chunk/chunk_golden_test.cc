// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "tests/golden/chunk/golden_chunks.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

using testing::ElementsAre;

std::vector<std::byte> ReadGolden(const std::string& name) {
  const std::string path = std::string(MSITD_GOLDEN_CHUNK_DIR) + "/" + name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

float FloatAt(std::span<const std::byte> bytes, size_t element) {
  float out = 0;
  std::memcpy(&out, bytes.data() + element * sizeof(out), sizeof(out));
  return out;
}

TEST(ChunkGoldenTest, TodaysProgramMakesTheSameBytes) {
  const std::vector<GoldenChunk> made = MakeGoldenChunks();
  ASSERT_EQ(made.size(), 13u);
  for (const GoldenChunk& golden : made) {
    EXPECT_EQ(ReadGolden(golden.name), golden.bytes) << golden.name;
  }
}

TEST(ChunkGoldenTest, OneTensorReadsBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/one_tensor.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->run(), "golden-fp32");
  EXPECT_EQ(chunk->header().rank, 1);
  EXPECT_EQ(chunk->header().stream_id, 0x1122334455667788u);
  EXPECT_EQ(chunk->header().chunk_sequence, 7u);
  EXPECT_EQ(chunk->header().client_time_ns, 1700000000000000000);
  ASSERT_EQ(chunk->records().size(), 1u);
  const RecordDescriptor& record = chunk->records()[0];
  EXPECT_EQ(record.sequence, 42u);
  EXPECT_EQ(record.token, 3);
  EXPECT_EQ(record.call, 0);
  EXPECT_EQ(chunk->Text(record.op), "layer.0.dense");
  EXPECT_EQ(chunk->Text(record.index), "0");
  EXPECT_EQ(chunk->Text(record.device), "cpu:0");
  EXPECT_EQ(static_cast<Io>(record.io), Io::kOutput);
  EXPECT_EQ(static_cast<DType>(record.dtype), DType::kFloat32);
  EXPECT_THAT(chunk->Dims(record), ElementsAre(2, 2));
  const auto payload = chunk->PayloadOf(record);
  ASSERT_EQ(payload.size(), 16u);
  EXPECT_EQ(FloatAt(payload, 0), 1.0f);
  EXPECT_EQ(FloatAt(payload, 1), -2.0f);
  EXPECT_EQ(FloatAt(payload, 2), 0.5f);
  EXPECT_EQ(FloatAt(payload, 3), 0.0f);
}

void ExpectDTypes(const Chunk& chunk, int first, int last) {
  for (int i = first; i <= last; ++i) {
    const RecordDescriptor& record =
        chunk.records()[static_cast<size_t>(i - first)];
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(record.dtype, i);
    EXPECT_EQ(chunk.Text(record.op),
              "model/\xcf\x86 " + std::string(DTypeName(dtype)));
    EXPECT_THAT(chunk.Dims(record), ElementsAre(3));
    const auto payload = chunk.PayloadOf(record);
    ASSERT_EQ(payload.size(), 3 * ElementBytes(dtype));
    EXPECT_EQ(payload.front(), static_cast<std::byte>(i));
  }
}

TEST(ChunkGoldenTest, EveryDTypeOfTheFirstVersionReadsBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/every_dtype.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), 19u);
  ExpectDTypes(*chunk, 1, 17);
  EXPECT_TRUE(chunk->Dims(chunk->records()[17]).empty());
  EXPECT_EQ(chunk->records()[17].tensor_bytes, 8u);
  EXPECT_THAT(chunk->Dims(chunk->records()[18]), ElementsAre(4, 0));
  EXPECT_EQ(chunk->records()[18].payload_bytes, 0u);
}

TEST(ChunkGoldenTest, SmallDTypesReadBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/small_dtypes.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), 13u);
  ExpectDTypes(*chunk, 18, 30);
}

TEST(ChunkGoldenTest, DTypesOfTorchReadBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/dtypes_of_torch.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), static_cast<size_t>(kDTypeCount - 31));
  ExpectDTypes(*chunk, 31, kDTypeCount - 1);
}

TEST(ChunkGoldenTest, LastPartOfALargeTensorReadsBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/last_part.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), 1u);
  const RecordDescriptor& record = chunk->records()[0];
  EXPECT_EQ(record.part_offset, kPartBytes);
  EXPECT_EQ(record.payload_bytes, 12u);
  EXPECT_EQ(record.tensor_bytes, kPartBytes + 12);
}

TEST(ChunkGoldenTest, PlacementsReadBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/placed.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), 3u);
  EXPECT_EQ(chunk->Text(chunk->records()[0].placement), "0+2x4/4x1:R,S(0)");
  EXPECT_EQ(chunk->Text(chunk->records()[1].placement), "0+8/1:P(sum)");
  EXPECT_EQ(chunk->records()[2].placement.offset, 0u);
  EXPECT_EQ(chunk->records()[2].placement.length, 0u);
}

TEST(ChunkGoldenTest, SampleFrameReadsBack) {
  const std::vector<std::byte> bytes = ReadGolden("v1/sample_frame.chunk");
  const uint64_t span = *FrameHeadSpan(bytes);
  AlignedBuffer head(span);
  std::copy_n(bytes.begin(), span, head.data());
  const auto chunk = Chunk::FromFrame(std::move(head));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->kept(), Kept::kSample);
  EXPECT_EQ(chunk->frame_bytes(), bytes.size());
  ASSERT_EQ(chunk->records().size(), 2u);
  FramePayload payload(chunk->header());
  const std::span<const std::byte> kept = std::span(bytes).subspan(span);
  for (const RecordDescriptor& record : chunk->records()) {
    const FramePayload::RecordBytes place = payload.Next(record);
    EXPECT_EQ(record.sample_hash,
              HashSample(kept.subspan(place.offset, place.bytes)));
  }
  EXPECT_EQ(chunk->records()[0].payload_bytes, 2060u);
  // Every second one of 1030 ascending numbers, followed by three floats.
  for (size_t i = 0; i < 515; ++i) {
    int16_t value = 0;
    std::memcpy(&value, kept.data() + i * sizeof(value), sizeof(value));
    EXPECT_EQ(value, static_cast<int16_t>(2 * i));
  }
  EXPECT_EQ(FloatAt(kept.subspan(1088), 0), 1.5f);
  EXPECT_EQ(FloatAt(kept.subspan(1088), 2), 4.0f);
}

TEST(ChunkGoldenTest, FrameReadsBackWithItsStamps) {
  const std::vector<std::byte> bytes = ReadGolden("v1/frame.chunk");
  const uint64_t span = *FrameHeadSpan(bytes);
  AlignedBuffer head(span);
  std::copy_n(bytes.begin(), span, head.data());
  const auto chunk = Chunk::FromFrame(std::move(head));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->header().run_id, 2u);
  EXPECT_EQ(chunk->header().segment_id, 1u);
  EXPECT_EQ(chunk->header().frame_offset, 8192u);
  EXPECT_EQ(chunk->header().durable_bytes, 8192u);
  EXPECT_EQ(chunk->header().frame_sequence, 5u);
  EXPECT_EQ(chunk->header().receive_time_ns, 1700000000500000000);
  EXPECT_EQ(chunk->header().store_id, 0xa1b2c3d4e5f60718u);
  const RecordDescriptor& record = chunk->records()[0];
  EXPECT_EQ(record.summary.count, 4u);
  EXPECT_EQ(record.summary.zero_count, 1u);
  EXPECT_EQ(record.summary.min, -2);
  EXPECT_EQ(record.summary.max, 1);
  EXPECT_EQ(record.summary.sum, -0.5);
  EXPECT_EQ(record.summary.l1, 3.5);
  EXPECT_EQ(record.summary.sum_squares, 5.25);
  EXPECT_EQ(record.hash,
            HashBytes(std::span(bytes).subspan(span, record.payload_bytes)));
}

TEST(ChunkGoldenTest, EveryKindReadsBack) {
  const std::vector<std::byte> bytes = ReadGolden("v2/every_kind.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->header().version, 2);
  struct Expected {
    RecordKind kind;
    const char* value;
  };
  constexpr Expected kExpected[] = {
      {RecordKind::kTensor, ""},
      {RecordKind::kTensor, ""},
      {RecordKind::kNumber, "0.5"},
      {RecordKind::kText, "sum"},
      {RecordKind::kText, ""},
      {RecordKind::kNone, "None"},
      {RecordKind::kDType, "torch.float32"},
      {RecordKind::kOther, "slice(None, 4, None)"},
      {RecordKind::kDocument, ""}};
  const std::span<const RecordDescriptor> records = chunk->records();
  ASSERT_EQ(records.size(), std::size(kExpected));
  for (size_t i = 0; i < records.size(); ++i) {
    const RecordExtra extra = chunk->ExtraOf(records[i]);
    EXPECT_EQ(KindOf(records[i]), kExpected[i].kind) << i;
    EXPECT_EQ(chunk->Text(extra.value), kExpected[i].value) << i;
    EXPECT_EQ(extra.has_value(), IsValue(kExpected[i].kind)) << i;
    EXPECT_EQ(extra.is_alias(), i == 1) << i;
  }
  EXPECT_EQ(RequiresGradOf(records[0]), true);
  EXPECT_EQ(RequiresGradOf(records[1]), false);
  EXPECT_EQ(RequiresGradOf(records[2]), std::nullopt);
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(records[0]).stack),
            "model.py:7 forward\ntrain.py:31 <module>");
  const RecordExtra alias = chunk->ExtraOf(records[1]);
  EXPECT_EQ(chunk->Text(alias.alias_op), "linear");
  EXPECT_EQ(alias.alias_call, 0);
  EXPECT_EQ(static_cast<Io>(alias.alias_io), Io::kOutput);
  EXPECT_EQ(chunk->Text(alias.alias_index), "0");
  EXPECT_EQ(records[1].payload_bytes, 0u);
  EXPECT_EQ(records[1].tensor_bytes, 16u);
  EXPECT_EQ(chunk->PayloadOf(records[8]).size(), 16u);
}

TEST(ChunkGoldenTest, StatisticsReadBack) {
  const std::vector<std::byte> bytes = ReadGolden("v3/statistics.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->header().version, 3);
  ASSERT_EQ(chunk->records().size(), 8u);
  const RecordDescriptor& record = chunk->records()[6];
  EXPECT_EQ(KindOf(record), RecordKind::kStatistics);
  EXPECT_EQ(static_cast<DType>(record.dtype), DType::kBfloat16);
  EXPECT_THAT(chunk->Dims(record), ElementsAre(2, 3));
  EXPECT_EQ(record.tensor_bytes, 0u);
  EXPECT_EQ(record.payload_bytes, 0u);
  EXPECT_EQ(RequiresGradOf(record), true);
  EXPECT_FALSE(chunk->HasOwnBytes(record));
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(record).value),
            "{\"max\": 1.5, \"min\": \"-inf\"}");
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(record).stack), "model.py:7 forward");
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(chunk->records()[7]).value), "{}");
}

TEST(ChunkGoldenTest, FrameOfEveryKindReadsBackWithItsStamps) {
  const std::vector<std::byte> bytes = ReadGolden("v2/every_kind_frame.chunk");
  const uint64_t span = *FrameHeadSpan(bytes);
  AlignedBuffer head(span);
  std::copy_n(bytes.begin(), span, head.data());
  const auto chunk = Chunk::FromFrame(std::move(head));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const RecordDescriptor& alias = chunk->records()[1];
  EXPECT_EQ(alias.bytes_segment_id, 1u);
  EXPECT_EQ(alias.bytes_offset, 8192 + span);
  EXPECT_EQ(alias.hash, chunk->records()[0].hash);
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(chunk->records()[6]).value),
            "torch.float32");
}

TEST(ChunkGoldenTest, DigestsReadBack) {
  const std::vector<std::byte> bytes = ReadGolden("v4/digests.chunk");
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->header().version, 4);
  const auto records = chunk->records();
  ASSERT_EQ(records.size(), 4u);
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(records[i].summary.count, 72u);
    EXPECT_EQ(records[i].summary.sum, 5);
    EXPECT_EQ(records[i].hash, HashBytes(chunk->PayloadOf(records[2])));
  }
  EXPECT_TRUE(IsClaimed(records[0]));
  EXPECT_TRUE(chunk->PayloadOf(records[0]).empty());
  EXPECT_FALSE(IsClaimed(records[1]));
  EXPECT_EQ(chunk->PayloadOf(records[1]).size(), 144u);
}

TEST(ChunkGoldenTest, FrameOfDigestsReadsBackWithItsStamps) {
  const std::vector<std::byte> bytes = ReadGolden("v4/digests_frame.chunk");
  AlignedBuffer head(bytes.size());
  std::copy(bytes.begin(), bytes.end(), head.data());
  const auto chunk = Chunk::FromFrame(std::move(head));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const auto records = chunk->records();
  EXPECT_TRUE(IsClaimed(records[0]));
  EXPECT_EQ(records[0].summary.max, 4);
  EXPECT_EQ(records[1].flags, kDigestFlag | kFalseDigestFlag);
  EXPECT_EQ(records[1].hash, (ContentHash{1, 2}));
  EXPECT_TRUE(IsClaimed(records[3]));
  EXPECT_EQ(chunk->stored_payload_bytes(), 0u);
}

}  // namespace
}  // namespace msitd::chunk
