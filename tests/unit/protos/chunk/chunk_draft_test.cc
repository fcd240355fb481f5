// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_draft.h"

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/chunk/chunk.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

using testing::ElementsAreArray;

class ChunkDraftTest : public testing::Test {
 protected:
  ChunkDraftTest() : memory_(kPieceBytes), builder_(memory_.span()) {
    Start(/*flags=*/0);
  }

  void Start(uint32_t flags) {
    builder_.Start("run of the client", 1, 1, 0);
    if (flags == kSummaryOnlyFlag) builder_.KeepSummariesOnly();
    builder_.StartDraft(/*number=*/1, /*client_time_ns=*/1234);
  }

  // Adds a record and fills its bytes. Returns false if it does not fit.
  bool Add(const SampleRecord& record, bool is_written = true) {
    const std::span<std::byte> place = builder_.Add(record.spec());
    if (place.data() == nullptr) return false;
    std::copy(record.payload.begin(), record.payload.end(), place.begin());
    if (is_written) draft().SetWritten(builder_.record_count() - 1);
    return true;
  }

  Draft draft() { return Draft(memory_.span()); }
  DraftHeader& header() {
    return *reinterpret_cast<DraftHeader*>(memory_.data());
  }
  // Returns the descriptor of record `index` in the draft.
  RecordDescriptor* record(uint32_t index) {
    return reinterpret_cast<RecordDescriptor*>(
        memory_.data() + sizeof(DraftHeader) + index * sizeof(DraftRecord));
  }

  static absl::StatusOr<std::optional<Chunk>> Read(AlignedBuffer& memory) {
    return Chunk::FromDraft(
        memory.span(),
        {.run = "run", .rank = 2, .stream_id = 5, .chunk_sequence = 9});
  }

  AlignedBuffer memory_;
  ChunkBuilder builder_;
};

SampleRecord Sample(uint64_t sequence, std::string op) {
  SampleRecord record = WholeTensor(DType::kInt32, {3, 5}, uint8_t(sequence));
  record.sequence = sequence;
  record.op = std::move(op);
  return record;
}

TEST_F(ChunkDraftTest, GivesTheRecordsThatAreWhole) {
  const std::vector<SampleRecord> records = {Sample(3, "a"), Sample(4, "b"),
                                             Sample(5, "a")};
  ASSERT_TRUE(Add(records[0]));
  ASSERT_TRUE(Add(records[1], /*is_written=*/false));
  ASSERT_TRUE(Add(records[2]));
  const auto chunk = Read(memory_);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_TRUE(chunk->has_value());
  EXPECT_EQ((*chunk)->run(), "run");
  EXPECT_EQ((*chunk)->header().rank, 2);
  EXPECT_EQ((*chunk)->header().stream_id, 5u);
  EXPECT_EQ((*chunk)->header().chunk_sequence, 9u);
  EXPECT_EQ((*chunk)->header().client_time_ns, 1234);
  EXPECT_TRUE((*chunk)->keeps_payload());
  ASSERT_EQ((*chunk)->records().size(), 2u);
  for (const size_t i : {0, 1}) {
    const RecordDescriptor& got = (*chunk)->records()[i];
    const SampleRecord& put = records[2 * i];
    EXPECT_EQ(got.sequence, put.sequence);
    EXPECT_EQ((*chunk)->Text(got.op), put.op);
    EXPECT_EQ((*chunk)->Text(got.index), put.index);
    EXPECT_EQ((*chunk)->Text(got.device), put.device);
    EXPECT_THAT((*chunk)->Dims(got), ElementsAreArray(put.dims));
    EXPECT_THAT((*chunk)->PayloadOf(got), ElementsAreArray(put.payload));
  }
}

TEST_F(ChunkDraftTest, GivesExtras) {
  SampleRecord original = Sample(3, "a");
  original.requires_grad = true;
  original.stack = "a.py:1 f";
  ASSERT_TRUE(Add(Sample(2, "torn"), /*is_written=*/false));
  ASSERT_TRUE(Add(original));
  SampleRecord alias = Sample(4, "b");
  alias.payload.clear();
  alias.alias = {.op = "a", .call = 0, .io = Io::kOutput, .index = "0"};
  ASSERT_TRUE(Add(alias));
  SampleRecord value = WholeTensor(DType::kUint8, {0}, 0);
  value.sequence = 5;
  value.kind = RecordKind::kNone;
  value.value = "None";
  ASSERT_TRUE(Add(value));
  const auto chunk = Read(memory_);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const Chunk& got = **chunk;
  EXPECT_EQ(got.header().version, kExtrasVersion);
  ASSERT_EQ(got.records().size(), 3u);
  EXPECT_EQ(RequiresGradOf(got.records()[0]), true);
  EXPECT_EQ(got.Text(got.ExtraOf(got.records()[0]).stack), "a.py:1 f");
  EXPECT_EQ(got.Text(got.ExtraOf(got.records()[1]).alias_op), "a");
  EXPECT_EQ(got.Text(got.ExtraOf(got.records()[1]).alias_index), "0");
  EXPECT_EQ(got.Text(got.ExtraOf(got.records()[2]).value), "None");
}

TEST_F(ChunkDraftTest, GivesDigests) {
  Start(kSummaryOnlyFlag);
  SampleRecord torn = WholeTensor(DType::kInt16, {70}, 1);
  SampleRecord whole = torn;
  whole.sequence = 4;
  AddDigest(torn, /*is_sent=*/false);
  const Digest digest = AddDigest(whole, /*is_sent=*/false);
  ASSERT_TRUE(Add(torn, /*is_written=*/false));
  ASSERT_TRUE(Add(whole));
  const auto chunk = Read(memory_);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const Chunk& got = **chunk;
  EXPECT_EQ(got.header().version, kVersion);
  ASSERT_EQ(got.records().size(), 1u);
  EXPECT_TRUE(IsClaimed(got.records()[0]));
  EXPECT_TRUE(
      HasEqualBits({got.records()[0].summary, got.records()[0].hash}, digest));
}

TEST_F(ChunkDraftTest, WithoutAWholeRecordThereIsNoChunk) {
  EXPECT_FALSE(Read(memory_)->has_value());
  ASSERT_TRUE(Add(Sample(1, "a"), /*is_written=*/false));
  EXPECT_FALSE(Read(memory_)->has_value());
}

TEST_F(ChunkDraftTest, KeepsHowMuchIsKept) {
  Start(kSummaryOnlyFlag);
  ASSERT_TRUE(Add(Sample(1, "a")));
  EXPECT_EQ((*Read(memory_))->kept(), Kept::kNothing);
}

TEST_F(ChunkDraftTest, WhatAnEarlierChunkLeftIsNotTaken) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Add(Sample(i, "old")));
  Start(/*flags=*/0);
  ASSERT_TRUE(Add(Sample(7, "new"), /*is_written=*/false));
  ASSERT_TRUE(Add(Sample(8, "new")));
  const auto chunk = Read(memory_);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ((*chunk)->records().size(), 1u);
  EXPECT_EQ((*chunk)->records()[0].sequence, 8u);
}

// The head of the finished chunk does not overlap the draft, however full the
// draft is.
TEST_F(ChunkDraftTest, OutlivesTheFinishOfTheChunk) {
  for (const size_t name_bytes : {8, 60, 300, 1000}) {
    SCOPED_TRACE(name_bytes);
    Start(/*flags=*/0);
    uint64_t count = 0;
    const auto next = [&count, name_bytes] {
      std::string name = std::to_string(count);
      name.resize(name_bytes, '.');
      return Sample(count, name);
    };
    while (Add(next())) ++count;
    EXPECT_GE(count, name_bytes <= 60 ? kChunkRecordsMax : 150);
    const auto bytes = builder_.Finish(1234);
    const auto finished = Chunk::FromProducer(bytes);
    ASSERT_TRUE(finished.ok()) << finished.status();
    const auto draft = Read(memory_);
    ASSERT_TRUE(draft.ok()) << draft.status();
    ASSERT_EQ((*draft)->records().size(), finished->records().size());
    for (size_t i = 0; i < count; ++i) {
      const RecordDescriptor& got = (*draft)->records()[i];
      const RecordDescriptor& put = finished->records()[i];
      ASSERT_EQ((*draft)->Text(got.op), finished->Text(put.op));
      ASSERT_THAT((*draft)->PayloadOf(got),
                  ElementsAreArray(finished->PayloadOf(put)));
    }
  }
}

TEST_F(ChunkDraftTest, EveryRecordInsideTheLimitsFitsIntoAnEmptyChunk) {
  SampleRecord record = WholeTensor(DType::kUint8, {kPartBytes}, 1);
  record.dims = std::vector<int64_t>(kDimsMax, 1);
  record.dims[0] = kPartBytes;
  record.op = std::string(kOpBytesMax, 'o');
  record.index = std::string(kIndexBytesMax, 'i');
  record.device = std::string(kDeviceBytesMax, 'd');
  record.stack = std::string(kStackBytesMax, 's');
  ASSERT_TRUE(Add(record));
  const auto chunk = Read(memory_);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_THAT((*chunk)->PayloadOf((*chunk)->records()[0]),
              ElementsAreArray(record.payload));
}

TEST_F(ChunkDraftTest, MovesToAnotherPiece) {
  ASSERT_TRUE(Add(Sample(1, "a")));
  ASSERT_TRUE(Add(Sample(2, "b"), /*is_written=*/false));
  draft().SetSent(41);
  AlignedBuffer other(kPieceBytes);
  std::memset(other.data(), 0xff, other.size());
  draft().CopyTo(other.span());
  const auto& copy = *reinterpret_cast<const DraftHeader*>(other.data());
  EXPECT_EQ(copy.number, 1u);
  EXPECT_EQ(copy.sent_count, 42u);
  const auto chunk = Read(other);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ((*chunk)->records().size(), 1u);
  EXPECT_EQ((*chunk)->Text((*chunk)->records()[0].op), "a");
  draft().End();
  EXPECT_EQ(header().number, 0u);
}

TEST_F(ChunkDraftTest, LiesAreRefused) {
  struct Lie {
    std::string name;
    std::function<void()> tell;
    bool is_refused = true;
  };
  const std::vector<Lie> lies = {
      {"none", [] {}, false},
      {"records", [this] { header().record_count = kChunkRecordsMax + 1; }},
      {"text", [this] { header().text_bytes = kDraftTextBytesMax + 1; }},
      {"head", [this] { header().text_bytes = kDraftTextBytesMax; }, false},
      {"no text", [this] { header().text_bytes = 0; }},
      {"flags", [this] { header().flags = 4; }},
      {"op", [this] { record(0)->op.offset = UINT32_MAX - 300; }},
      {"op length", [this] { record(0)->op.length = UINT32_MAX; }},
      {"dims", [this] { record(0)->dims_offset += 1; }},
      {"kind", [this] { record(0)->flags = 7; }},
      {"extra", [this] { record(0)->flags = kExtraFlag; }},
      {"extra far",
       [this] {
         record(0)->flags = kExtraFlag;
         record(0)->dims_offset = UINT32_MAX - 7;
       }},
      {"dims far", [this] { record(0)->dims_offset = UINT32_MAX - 7; }},
      {"payload", [this] { record(1)->payload_offset = UINT64_MAX - 63; }},
      {"payload far", [this] { record(1)->payload_offset = kPartBytes; }},
      {"overlap", [this] { record(1)->payload_offset = 0; }},
      {"bytes", [this] { record(1)->payload_bytes += 4; }},
      {"io", [this] { record(1)->io = 99; }},
      {"order", [this] { record(1)->sequence = 0; }},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    Start(/*flags=*/0);
    ASSERT_TRUE(Add(Sample(1, "a")));
    ASSERT_TRUE(Add(Sample(2, "b")));
    lie.tell();
    const auto chunk = Read(memory_);
    EXPECT_EQ(!chunk.ok(), lie.is_refused) << chunk.status();
    if (!chunk.ok()) {
      EXPECT_EQ(chunk.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(Reason(chunk.status()), "");
    }
  }
}

}  // namespace
}  // namespace msitd::chunk
