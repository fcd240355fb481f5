// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_builder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

using testing::ElementsAreArray;

void ExpectRoundTrip(const std::vector<SampleRecord>& records) {
  const std::vector<std::byte> bytes = BuildChunk(records);
  ASSERT_EQ(bytes.size() % kChunkAlignment, 0u);
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->run(), "run");
  EXPECT_EQ(chunk->header().rank, 2);
  EXPECT_EQ(chunk->header().stream_id, 5u);
  EXPECT_EQ(chunk->header().chunk_sequence, 9u);
  EXPECT_EQ(chunk->header().client_time_ns, 1234);
  EXPECT_EQ(chunk->frame_bytes(), bytes.size());
  ASSERT_EQ(chunk->records().size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const RecordDescriptor& got = chunk->records()[i];
    const SampleRecord& put = records[i];
    EXPECT_EQ(got.sequence, put.sequence);
    EXPECT_EQ(chunk->Text(got.device), put.device);
    EXPECT_EQ(got.token, put.token);
    EXPECT_EQ(chunk->Text(got.op), put.op);
    EXPECT_EQ(got.call, put.call);
    EXPECT_EQ(got.io, static_cast<uint8_t>(put.io));
    EXPECT_EQ(chunk->Text(got.index), put.index);
    EXPECT_EQ(got.dtype, static_cast<uint8_t>(put.dtype));
    EXPECT_THAT(chunk->Dims(got), ElementsAreArray(put.dims));
    EXPECT_EQ(got.tensor_bytes, put.tensor_bytes);
    EXPECT_EQ(got.part_offset, put.part_offset);
    EXPECT_EQ(KindOf(got), put.kind);
    EXPECT_EQ(RequiresGradOf(got), put.requires_grad);
    const RecordExtra extra = chunk->ExtraOf(got);
    EXPECT_EQ(extra.has_value(), put.value.has_value());
    EXPECT_EQ(chunk->Text(extra.value), put.value.value_or(""));
    EXPECT_EQ(chunk->Text(extra.stack), put.stack);
    ASSERT_EQ(extra.is_alias(), put.alias.has_value());
    if (put.alias.has_value()) {
      EXPECT_EQ(chunk->Text(extra.alias_op), put.alias->op);
      EXPECT_EQ(extra.alias_call, put.alias->call);
      EXPECT_EQ(extra.alias_io, static_cast<uint8_t>(put.alias->io));
      EXPECT_EQ(chunk->Text(extra.alias_index), put.alias->index);
    }
    EXPECT_EQ(got.payload_offset % kRecordAlignment, 0u);
    EXPECT_THAT(chunk->PayloadOf(got), ElementsAreArray(put.payload));
  }
}

TEST(ChunkBuilderTest, RecordMayBeLeftOut) {
  AlignedBuffer buffer(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder({buffer.data(), buffer.size()});
  // The second round starts without data of the first one.
  for (int round = 0; round < 2; ++round) {
    builder.Start("run", 0, 5, 0);
    EXPECT_TRUE(builder.has_nothing());
    const int64_t dims[] = {100};
    for (const std::string_view op : {"a", "b", "c", "d"}) {
      const auto payload = builder.Add({.device = "cpu:0",
                                        .op = op,
                                        .io = Io::kOutput,
                                        .index = "0",
                                        .dtype = DType::kUint8,
                                        .dims = dims,
                                        .tensor_bytes = 100,
                                        .part_bytes = 100,
                                        .stack = op == "c" ? "a.py:1 f" : ""});
      std::memset(payload.data(), op[0], payload.size());
    }
    builder.LeaveOut(3);
    builder.LeaveOut(1);
    EXPECT_EQ(builder.record_count(), 4u);
    EXPECT_FALSE(builder.has_nothing());
    const auto chunk = Chunk::FromProducer(builder.Finish(0));
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    ASSERT_EQ(chunk->records().size(), 2u);
    for (int i = 0; i < 2; ++i) {
      const RecordDescriptor& record = chunk->records()[i];
      const std::string_view op = i == 0 ? "a" : "c";
      EXPECT_EQ(chunk->Text(record.op), op);
      EXPECT_THAT(chunk->PayloadOf(record),
                  testing::Each(static_cast<std::byte>(op[0])));
      EXPECT_EQ(chunk->Text(chunk->ExtraOf(record).stack),
                i == 0 ? "" : "a.py:1 f");
    }
  }
}

TEST(ChunkBuilderTest, RoundTripsExtras) {
  std::vector<SampleRecord> records(5, WholeTensor(DType::kInt32, {3, 5}, 1));
  records[0].requires_grad = true;
  records[1].stack = "a.py:1 f\nb.py:2 g";
  records[1].index = "1";
  records[2] = WholeTensor(DType::kInt64, {}, 1);
  records[2].kind = RecordKind::kNumber;
  records[2].value = "7";
  records[2].stack = records[1].stack;
  records[3] = WholeTensor(DType::kUint8, {0}, 1);
  records[3].kind = RecordKind::kText;
  records[3].value = "";
  records[4].payload.clear();
  records[4].requires_grad = false;
  records[4].op = "view";
  records[4].alias = {.op = "op", .call = 0, .io = Io::kOutput, .index = "0"};
  ExpectRoundTrip(records);
  EXPECT_EQ(HeaderOf(BuildChunk(records)).version, kExtrasVersion);
  records.push_back(Statistics(DType::kInt64, {2, 3}, "{\"max\": 1}"));
  ExpectRoundTrip(records);
  EXPECT_EQ(HeaderOf(BuildChunk(records)).version, kStatisticsVersion);
}

TEST(ChunkBuilderTest, WritesTheLowestVersionThatSuffices) {
  std::vector<SampleRecord> records = {WholeTensor(DType::kInt32, {3}, 1)};
  EXPECT_EQ(HeaderOf(BuildChunk(records)).version, kPlainVersion);
  EXPECT_EQ(VersionFor(records[0].spec()), kPlainVersion);
  records[0].requires_grad = false;
  EXPECT_EQ(HeaderOf(BuildChunk(records)).version, kExtrasVersion);
  EXPECT_EQ(VersionFor(records[0].spec()), kExtrasVersion);
  records.insert(records.begin(), Statistics(DType::kInt32, {3}, "{}"));
  EXPECT_EQ(HeaderOf(BuildChunk(records)).version, kStatisticsVersion);
  EXPECT_EQ(VersionFor(records[0].spec()), kStatisticsVersion);
  AddDigest(records[1], /*is_sent=*/false);
  EXPECT_EQ(HeaderOf(BuildChunk(records)).version, kVersion);
  EXPECT_EQ(VersionFor(records[1].spec()), kVersion);
}

TEST(ChunkBuilderTest, RoundTripsDigests) {
  std::vector<SampleRecord> records(3, WholeTensor(DType::kInt16, {70}, 1));
  const std::vector<std::byte> tensor = records[0].payload;
  const Digest digest = AddDigest(records[0], /*is_sent=*/false);
  AddDigest(records[1], /*is_sent=*/true);
  records[1].op = "sent";
  records[2].op = "plain";
  const std::vector<std::byte> bytes = BuildChunk(records);
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->kept(), Kept::kNothing);
  const auto got = chunk->records();
  ASSERT_EQ(got.size(), 3u);
  for (const size_t i : {0, 1}) {
    EXPECT_TRUE(HasEqualBits({got[i].summary, got[i].hash}, digest)) << i;
  }
  EXPECT_TRUE(IsClaimed(got[0]));
  EXPECT_TRUE(chunk->PayloadOf(got[0]).empty());
  EXPECT_EQ(PartBytes(got[0]), tensor.size());
  EXPECT_FALSE(IsClaimed(got[1]));
  EXPECT_TRUE(HasDigest(got[1]));
  EXPECT_THAT(chunk->PayloadOf(got[1]), ElementsAreArray(tensor));
  EXPECT_FALSE(HasDigest(got[2]));
  EXPECT_THAT(chunk->PayloadOf(got[2]), ElementsAreArray(tensor));
  EXPECT_EQ(got[2].summary, Summary());
}

TEST(ChunkBuilderTest, AChunkAfterOneWithExtrasIsPlainAgain) {
  AlignedBuffer memory(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder(memory.span());
  SampleRecord record = WholeTensor(DType::kInt32, {3}, 1);
  for (const char* stack : {"a.py:1 f", ""}) {
    builder.Start("run", 2, 5, 9);
    record.stack = stack;
    ASSERT_NE(builder.Add(record.spec()).data(), nullptr);
    EXPECT_EQ(HeaderOf(builder.Finish(0)).version,
              record.stack.empty() ? kPlainVersion : kExtrasVersion);
  }
}

TEST(ChunkBuilderTest, RoundTripsEveryDType) {
  std::vector<SampleRecord> records;
  for (int dtype = 1; dtype < kDTypeCount; ++dtype) {
    records.push_back(
        WholeTensor(static_cast<DType>(dtype), {3, 5}, uint8_t(dtype)));
    records.back().sequence = dtype;
    records.back().op = "op." + std::to_string(dtype);
  }
  ExpectRoundTrip(records);
}

TEST(ChunkBuilderTest, RoundTripsEveryIo) {
  std::vector<SampleRecord> records;
  for (int io = 1; io < kIoCount; ++io) {
    records.push_back(WholeTensor(DType::kInt8, {io}, uint8_t(io)));
    records.back().io = static_cast<Io>(io);
  }
  ExpectRoundTrip(records);
}

TEST(ChunkBuilderTest, ChunkWithoutRecordsHasNoPayload) {
  AlignedBuffer memory(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder(memory.span());
  builder.Start("run", 2, 5, 9);
  const auto bytes = builder.Finish(1);
  ASSERT_EQ(bytes.size(), kChunkAlignment);
  ChunkHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  EXPECT_EQ(header.record_count, 0u);
  EXPECT_EQ(header.payload_bytes, 0u);
}

TEST(ChunkBuilderTest, RoundTripsEmptyAndScalarTensors) {
  ExpectRoundTrip({
      WholeTensor(DType::kFloat32, {}, 1),
      WholeTensor(DType::kFloat32, {0}, 2),
      WholeTensor(DType::kFloat32, {7, 0, 3}, 3),
      WholeTensor(DType::kFloat32, {1, 1, 1}, 4),
  });
  ExpectRoundTrip({WholeTensor(DType::kComplex128, {0}, 1)});
}

TEST(ChunkBuilderTest, RoundTripsAnyText) {
  std::vector<SampleRecord> records(4, WholeTensor(DType::kUint8, {3}, 1));
  records[0].op = "model/layers/0/attn/q_proj";
  records[1].op = "an op with blanks\tand\nlines";
  records[2].op = "\xe6\xb3\xa8\xe6\x84\x8f\xe5\x8a\x9b.\xf0\x9f\x9a\x80";
  records[2].index = "\xce\xb2.weight";
  records[3].op = std::string(kOpBytesMax, 'o');
  records[3].index = std::string(kIndexBytesMax, 'i');
  records[3].device = std::string(kDeviceBytesMax, 'd');
  records[0].index = "";
  ExpectRoundTrip(records);
}

TEST(ChunkBuilderTest, RoundTripsTheLargestNumbers) {
  SampleRecord record = WholeTensor(DType::kUint8, {3}, 1);
  record.sequence = ~uint64_t{0};
  record.token = kTokenMax;
  record.call = kCallMax;
  record.dims.assign(kDimsMax, 1);
  record.dims[7] = 3;
  ExpectRoundTrip({record});
}

TEST(ChunkBuilderTest, RoundTripsEachPartOfALargeTensor) {
  constexpr uint64_t kTailBytes = 12;
  const SampleRecord whole =
      WholeTensor(DType::kFloat32,
                  {static_cast<int64_t>((2 * kPartBytes + kTailBytes) / 4)}, 1);
  ASSERT_EQ(PartCount(whole.tensor_bytes), 3u);
  for (uint64_t part = 0; part < 3; ++part) {
    SampleRecord record = whole;
    record.part_offset = part * kPartBytes;
    const auto begin =
        whole.payload.begin() + static_cast<std::ptrdiff_t>(record.part_offset);
    const uint64_t bytes =
        std::min(kPartBytes, whole.tensor_bytes - record.part_offset);
    record.payload.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    ExpectRoundTrip({record});
  }
}

TEST(ChunkBuilderTest, HoldsTheLargestRecordInAnEmptyChunk) {
  SampleRecord record =
      WholeTensor(DType::kUint8, {static_cast<int64_t>(kPartBytes)}, 1);
  record.op = std::string(kOpBytesMax, 'o');
  record.index = std::string(kIndexBytesMax, 'i');
  record.device = std::string(kDeviceBytesMax, 'd');
  record.dims.assign(kDimsMax, 1);
  record.dims[0] = static_cast<int64_t>(kPartBytes);
  ExpectRoundTrip({record});
}

class FullChunkTest : public testing::Test {
 protected:
  FullChunkTest()
      : buffer_(ChunkBuilder::kBufferBytes), builder_(buffer_.span()) {
    builder_.Start(std::string(kRunNameBytesMax, 'r'), 0, 1, 0);
  }

  bool Add(const SampleRecord& record) {
    const std::span<std::byte> out = builder_.Add(record.spec());
    if (out.data() == nullptr) return false;
    std::copy(record.payload.begin(), record.payload.end(), out.begin());
    return true;
  }

  void ExpectValid() {
    const auto chunk = Chunk::FromProducer(builder_.Finish(0));
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->records().size(), builder_.record_count());
  }

  AlignedBuffer buffer_;
  ChunkBuilder builder_;
};

TEST_F(FullChunkTest, StopsAtTheRecordLimit) {
  const SampleRecord record = WholeTensor(DType::kUint8, {}, 1);
  while (Add(record)) {
  }
  EXPECT_EQ(builder_.record_count(), kChunkRecordsMax);
  ExpectValid();
}

TEST_F(FullChunkTest, StopsAtThePayloadLimit) {
  const SampleRecord record = WholeTensor(DType::kUint8, {1 << 20}, 1);
  while (Add(record)) {
  }
  EXPECT_EQ(builder_.record_count(), 4u);
  EXPECT_EQ(builder_.payload_bytes(), kChunkPayloadBytesMax);
  ExpectValid();
}

TEST_F(FullChunkTest, StopsAtTheHeadLimit) {
  SampleRecord record = WholeTensor(DType::kUint8, {}, 1);
  record.dims.assign(kDimsMax, 1);
  uint32_t count = 0;
  do {
    record.op = std::to_string(count++) + std::string(kOpBytesMax - 8, 'o');
  } while (Add(record));
  EXPECT_LT(builder_.record_count(), kChunkRecordsMax);
  EXPECT_GT(builder_.record_count(), 256u);
  ExpectValid();
}

TEST_F(FullChunkTest, RefusesMoreThanAPart) {
  EXPECT_FALSE(Add(
      WholeTensor(DType::kUint8, {static_cast<int64_t>(kPartBytes + 1)}, 1)));
  EXPECT_EQ(builder_.record_count(), 0u);
}

TEST_F(FullChunkTest, StartForgetsWhatWasThereBefore) {
  ASSERT_TRUE(Add(WholeTensor(DType::kUint8, {1000}, 0xff)));
  builder_.Finish(0);
  builder_.Start("again", 1, 2, 3);
  SampleRecord record = WholeTensor(DType::kUint8, {3}, 1);
  ASSERT_TRUE(Add(record));
  const auto chunk = Chunk::FromProducer(builder_.Finish(0));
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->run(), "again");
  EXPECT_EQ(chunk->records().size(), 1u);
  EXPECT_EQ(chunk->header().payload_bytes, 3u);
}

TEST(ChunkBuilderTest, SharesEqualTextsAndZeroesAllPadding) {
  std::vector<SampleRecord> records(2, WholeTensor(DType::kUint8, {3}, 1));
  records[0].op = records[1].op = "the same op";
  const std::vector<std::byte> bytes = BuildChunk(records);
  const RecordDescriptor first = RecordOf(bytes, 0);
  const RecordDescriptor second = RecordOf(bytes, 1);
  EXPECT_EQ(first.op.offset, second.op.offset);
  const ChunkHeader header = HeaderOf(bytes);
  const uint64_t head_span = AlignUp(header.head_bytes, kChunkAlignment);
  for (uint64_t i = header.head_bytes; i < head_span; ++i) {
    ASSERT_EQ(bytes[i], std::byte{0}) << i;
  }
  for (uint64_t i = head_span + 3; i < head_span + kRecordAlignment; ++i) {
    ASSERT_EQ(bytes[i], std::byte{0}) << i;
  }
  for (uint64_t i = head_span + header.payload_bytes; i < bytes.size(); ++i) {
    ASSERT_EQ(bytes[i], std::byte{0}) << i;
  }
}

}  // namespace
}  // namespace msitd::chunk
