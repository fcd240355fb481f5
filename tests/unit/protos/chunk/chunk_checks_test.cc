// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_checks.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "tests/unit/protos/chunk/sample_chunk.h"

namespace msitd::chunk {
namespace {

// The sample chunk with one invalid field. Its records are 0: float32 [2, 3],
// 1: int64 [4], 2: bfloat16 [5].
struct Spoiled {
  std::vector<std::byte> bytes = SmallChunk();
  ChunkHeader header = HeaderOf(bytes);
  RecordDescriptor record = RecordOf(bytes, 1);

  std::vector<std::byte> Put() {
    PutHeader(bytes, header);
    PutRecord(bytes, 1, record);
    return bytes;
  }
  void PutText(TextRef ref, std::string_view text) {
    for (size_t i = 0; i < text.size() && i < ref.length; ++i) {
      bytes[ref.offset + i] = static_cast<std::byte>(text[i]);
    }
  }
  void PutDim(int64_t dim) {
    std::memcpy(bytes.data() + record.dims_offset, &dim, sizeof(dim));
  }
};

struct Row {
  const char* name;
  const char* reason;
  std::function<void(Spoiled&)> spoil;
};

std::vector<Row> HeaderRows() {
  return {
      {"Magic", "CHUNK_MALFORMED", [](Spoiled& s) { s.header.magic ^= 1; }},
      {"VersionAbove", "CHUNK_VERSION_UNSUPPORTED",
       [](Spoiled& s) { s.header.version = 5; }},
      {"VersionZero", "CHUNK_VERSION_UNSUPPORTED",
       [](Spoiled& s) { s.header.version = 0; }},
      {"HeaderReserved", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.reserved_1 = 1; }},
      {"HeaderFlags", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.flags = 16; }},
      {"SharedMemoryStamped", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.flags = kSharedMemoryFlag; }},
      {"OwnMemoryStamped", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.flags = kOwnMemoryFlag; }},
      {"SamplesAndNone", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.flags = kSummaryOnlyFlag | kSampleFlag; }},
      {"HeadTooShortForItsTable", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.head_bytes = 128 + 3 * 224 - 1; }},
      {"HeadTooLong", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.head_bytes = kChunkHeadBytesMax + 1; }},
      {"HeadLongerThanTheChunk", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.head_bytes = kChunkHeadBytesMax; }},
      {"NoRecords", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.record_count = 0; }},
      {"TooManyRecords", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.record_count = kChunkRecordsMax + 1; }},
      {"RecordCountWraps", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.record_count = 0xffffffff; }},
      {"PayloadTooLarge", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.payload_bytes = kChunkPayloadBytesMax + 1; }},
      {"PayloadWraps", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.payload_bytes = ~uint64_t{0}; }},
      {"PayloadLongerThanTheChunk", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.payload_bytes = 3 * kChunkAlignment; }},
      {"RankNegative", "RANK_OUT_OF_RANGE",
       [](Spoiled& s) { s.header.rank = -1; }},
      {"RankTooLarge", "RANK_OUT_OF_RANGE",
       [](Spoiled& s) { s.header.rank = kRankMax + 1; }},
  };
}

std::vector<Row> TextRows() {
  return {
      {"RunEmpty", "NAME_INVALID", [](Spoiled& s) { s.header.run.length = 0; }},
      {"RunTooLong", "NAME_TOO_LONG",
       [](Spoiled& s) { s.header.run.length = kRunNameBytesMax + 1; }},
      {"RunInTheHeader", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.run.offset = 0; }},
      {"RunInTheTable", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.run.offset = 128 + 3 * 224 - 1; }},
      {"RunBehindTheHead", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.run.offset = s.header.head_bytes; }},
      {"RunOffsetWraps", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.run.offset = 0xffffffff; }},
      {"RunHasNul", "NAME_INVALID",
       [](Spoiled& s) { s.PutText(s.header.run, std::string_view("\0", 1)); }},
      {"RunNotUtf8", "NAME_INVALID",
       [](Spoiled& s) { s.PutText(s.header.run, "\xff"); }},
      {"OpEmpty", "NAME_INVALID", [](Spoiled& s) { s.record.op.length = 0; }},
      {"OpTooLong", "NAME_TOO_LONG",
       [](Spoiled& s) { s.record.op.length = kOpBytesMax + 1; }},
      {"OpAbsurdlyLong", "NAME_TOO_LONG",
       [](Spoiled& s) { s.record.op.length = 0xffffffff; }},
      {"OpBehindTheHead", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.op.offset = s.header.head_bytes - 1; }},
      {"OpNotUtf8", "NAME_INVALID",
       [](Spoiled& s) { s.PutText(s.record.op, "\xc0\x80"); }},
      {"IndexTooLong", "NAME_TOO_LONG",
       [](Spoiled& s) { s.record.index.length = kIndexBytesMax + 1; }},
      {"IndexInTheTable", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.index.offset = 200; }},
      {"IndexHasNul", "NAME_INVALID",
       [](Spoiled& s) {
         s.PutText(s.record.index, {"\0", 1});
       }},
      {"DeviceEmpty", "NAME_INVALID",
       [](Spoiled& s) { s.record.device.length = 0; }},
      {"DeviceTooLong", "NAME_TOO_LONG",
       [](Spoiled& s) { s.record.device.length = kDeviceBytesMax + 1; }},
      {"PlacementOfNoBytes", "NAME_INVALID",
       [](Spoiled& s) {
         s.record.placement = {s.record.op.offset, 0};
       }},
      {"PlacementWithoutPlace", "CHUNK_MALFORMED",
       [](Spoiled& s) {
         s.record.placement = {0, 1};
       }},
      {"PlacementTooLong", "NAME_TOO_LONG",
       [](Spoiled& s) {
         s.record.placement = {s.record.op.offset, kPlacementBytesMax + 1};
       }},
      {"PlacementBehindTheHead", "CHUNK_MALFORMED",
       [](Spoiled& s) {
         s.record.placement = {s.header.head_bytes - 1, 2};
       }},
      {"PlacementThatIsNone", "NAME_INVALID",
       [](Spoiled& s) { s.record.placement = s.record.op; }},
  };
}

std::vector<Row> NumberRows() {
  return {
      {"TokenNegative", "TOKEN_OUT_OF_RANGE",
       [](Spoiled& s) { s.record.token = -1; }},
      {"TokenTooLarge", "TOKEN_OUT_OF_RANGE",
       [](Spoiled& s) { s.record.token = kTokenMax + 1; }},
      {"CallNegative", "CALL_OUT_OF_RANGE",
       [](Spoiled& s) { s.record.call = -1; }},
      {"CallTooLarge", "CALL_OUT_OF_RANGE",
       [](Spoiled& s) { s.record.call = kCallMax + 1; }},
      {"IoZero", "UNKNOWN_IO", [](Spoiled& s) { s.record.io = 0; }},
      {"IoUnknown", "UNKNOWN_IO", [](Spoiled& s) { s.record.io = 8; }},
      {"DTypeZero", "UNKNOWN_DTYPE", [](Spoiled& s) { s.record.dtype = 0; }},
      {"DTypeUnknown", "UNKNOWN_DTYPE",
       [](Spoiled& s) { s.record.dtype = kDTypeCount; }},
      {"RecordFlags", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.flags = 1; }},
      {"RecordReserved1", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.reserved_1 = 1; }},
  };
}

std::vector<Row> ShapeRows() {
  return {
      {"TooManyDims", "SHAPE_MISMATCH",
       [](Spoiled& s) { s.record.dim_count = kDimsMax + 1; }},
      {"DimsInTheTable", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.dims_offset = 128; }},
      {"DimsUnaligned", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.dims_offset += 4; }},
      {"DimsBehindTheHead", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.dims_offset = 0xfffffff8; }},
      {"DimNegative", "SHAPE_MISMATCH", [](Spoiled& s) { s.PutDim(-4); }},
      {"DimOther", "SHAPE_MISMATCH", [](Spoiled& s) { s.PutDim(5); }},
      {"DimEmpty", "SHAPE_MISMATCH", [](Spoiled& s) { s.PutDim(0); }},
      // 2^61 elements of 8 bytes overflow to 0.
      {"DimOverflows", "SHAPE_MISMATCH",
       [](Spoiled& s) {
         s.PutDim(int64_t{1} << 61);
         s.record.tensor_bytes = 0;
       }},
      {"TensorTooLarge", "SHAPE_MISMATCH",
       [](Spoiled& s) {
         s.PutDim(static_cast<int64_t>(kTensorBytesMax / 8 + 1));
         s.record.tensor_bytes = kTensorBytesMax + 8;
       }},
      {"DTypeOfOtherSize", "SHAPE_MISMATCH",
       [](Spoiled& s) {
         s.record.dtype = static_cast<uint8_t>(DType::kFloat32);
       }},
      {"TensorBytes", "SHAPE_MISMATCH",
       [](Spoiled& s) { s.record.tensor_bytes -= 8; }},
  };
}

std::vector<Row> PartRows() {
  return {
      {"PartOffsetUnaligned", "PART_MISPLACED",
       [](Spoiled& s) { s.record.part_offset = 8; }},
      {"PartOffsetBehindTheTensor", "PART_MISPLACED",
       [](Spoiled& s) { s.record.part_offset = kPartBytes; }},
      {"PartTooShort", "PART_MISPLACED",
       [](Spoiled& s) { s.record.payload_bytes = 24; }},
      {"PartTooLong", "PART_MISPLACED",
       [](Spoiled& s) { s.record.payload_bytes = 40; }},
      {"PayloadOffsetUnaligned", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.payload_offset += 32; }},
      {"PayloadOverlapsTheRecordBefore", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.payload_offset = 0; }},
      {"PayloadOverlapsTheRecordBehind", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.payload_offset += 64; }},
      {"PayloadOffsetBehindTheEnd", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.payload_offset = 1 << 20; }},
      {"PayloadOffsetWraps", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.payload_offset = ~uint64_t{63}; }},
      {"PayloadEndsEarly", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.header.payload_bytes -= 1; }},
      {"SequenceDecreases", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.record.sequence = 9; }},
      {"CutShort", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.bytes.resize(s.bytes.size() - 1); }},
      {"CutByAPage", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.bytes.resize(s.bytes.size() - kChunkAlignment); }},
      {"BytesBehindTheEnd", "CHUNK_MALFORMED",
       [](Spoiled& s) { s.bytes.resize(s.bytes.size() + kChunkAlignment); }},
  };
}

const std::vector<Row>& Rows() {
  static const auto* const kRows = [] {
    auto* rows = new std::vector<Row>;
    for (const auto& group :
         {HeaderRows(), TextRows(), NumberRows(), ShapeRows(), PartRows()}) {
      rows->insert(rows->end(), group.begin(), group.end());
    }
    return rows;
  }();
  return *kRows;
}

class ChunkRefusalTest : public testing::TestWithParam<size_t> {};

TEST_P(ChunkRefusalTest, NamesItsReason) {
  const Row& row = Rows()[GetParam()];
  Spoiled spoiled;
  row.spoil(spoiled);
  const absl::Status status = Chunk::FromProducer(spoiled.Put()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(Reason(status), row.reason) << status;
  EXPECT_FALSE(Message(status).empty());
}

INSTANTIATE_TEST_SUITE_P(Table, ChunkRefusalTest,
                         testing::Range<size_t>(0, Rows().size()),
                         [](const auto& info) {
                           return std::string(Rows()[info.param].name);
                         });

constexpr size_t kExtraRecords = 5;

// A chunk with one invalid field in its records: a tensor, an alias of it, a
// number, a document and statistics.
struct SpoiledExtra {
  SpoiledExtra() {
    std::vector<SampleRecord> records(kExtraRecords,
                                      WholeTensor(DType::kFloat64, {}, 1));
    records[0].stack = "a.py:1 f";
    records[1].op = "view";
    records[1].payload.clear();
    records[1].alias = {.op = "op", .call = 0, .io = Io::kOutput, .index = "0"};
    records[2].index = "1";
    records[2].kind = RecordKind::kNumber;
    records[2].value = "0.5";
    records[3] = WholeTensor(DType::kUint8, {3}, 1);
    records[3].kind = RecordKind::kDocument;
    records[3].io = Io::kState;
    records[3].index = "";
    records[3].stack = "b.py:1 f";
    records[4] = Statistics(DType::kFloat64, {2}, "{\"max\": 1}");
    bytes = BuildChunk(records);
    header = HeaderOf(bytes);
    for (size_t i = 0; i < kExtraRecords; ++i) {
      record[i] = RecordOf(bytes, i);
      std::memcpy(&extra[i], bytes.data() + ExtraOffset(record[i]),
                  sizeof(RecordExtra));
    }
  }

  std::vector<std::byte> Put() {
    PutHeader(bytes, header);
    for (size_t i = 0; i < kExtraRecords; ++i) {
      std::memcpy(bytes.data() + ExtraOffset(RecordOf(bytes, i)), &extra[i],
                  sizeof(RecordExtra));
      PutRecord(bytes, i, record[i]);
    }
    return bytes;
  }

  std::vector<std::byte> bytes;
  ChunkHeader header;
  RecordDescriptor record[kExtraRecords];
  RecordExtra extra[kExtraRecords];
};

struct ExtraRow {
  const char* name;
  const char* reason;
  std::function<void(SpoiledExtra&)> spoil;
};

const ExtraRow kExtraRows[] = {
    {"nothing", "", [](auto&) {}},
    {"plain version", "CHUNK_MALFORMED",
     [](auto& s) { s.header.version = kPlainVersion; }},
    {"tensor as statistics", "SHAPE_MISMATCH",
     [](auto& s) { s.record[0].flags |= 7; }},
    {"statistics in version 2", "CHUNK_MALFORMED",
     [](auto& s) { s.header.version = kExtrasVersion; }},
    {"statistics that are none", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[4].value.length -= 1; }},
    {"statistics without a value", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[4] = RecordExtra{}; }},
    {"statistics with bytes", "SHAPE_MISMATCH",
     [](auto& s) { s.record[4].tensor_bytes = 16; }},
    {"statistics with a payload", "PART_MISPLACED",
     [](auto& s) { s.record[4].payload_bytes = 16; }},
    {"statistics of a later part", "PART_MISPLACED",
     [](auto& s) { s.record[4].part_offset = kPartBytes; }},
    {"statistics as an alias", "CHUNK_MALFORMED",
     [](auto& s) {
       const TextRef value = s.extra[4].value;
       s.extra[4] = s.extra[1];
       s.extra[4].flags |= kValueFlag;
       s.extra[4].value = value;
     }},
    {"requires_grad", "CHUNK_MALFORMED",
     [](auto& s) { s.record[0].flags |= kRequiresGradMask; }},
    {"digest in version 3", "CHUNK_MALFORMED",
     [](auto& s) { s.record[0].flags |= kDigestFlag; }},
    {"digest in a chunk that keeps bytes", "CHUNK_MALFORMED",
     [](auto& s) {
       s.header.version = kVersion;
       s.record[0].flags |= kDigestFlag;
     }},
    {"false digest in version 3", "CHUNK_MALFORMED",
     [](auto& s) { s.record[0].flags |= kFalseDigestFlag; }},
    {"false digest of none", "CHUNK_MALFORMED",
     [](auto& s) {
       s.header.version = kVersion;
       s.record[0].flags |= kFalseDigestFlag;
     }},
    {"extra outside", "CHUNK_MALFORMED",
     [](auto& s) { s.record[2].dims_offset = s.header.head_bytes & ~7u; }},
    {"extra flags", "CHUNK_MALFORMED", [](auto& s) { s.extra[0].flags = 4; }},
    {"extra reserved", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[0].reserved = 1; }},
    {"stack too long", "NAME_TOO_LONG",
     [](auto& s) { s.extra[0].stack.length = kStackBytesMax + 1; }},
    {"stack outside", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[0].stack.offset = s.header.head_bytes; }},
    {"stack of no bytes", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[0].stack.length = 0; }},
    {"value too long", "NAME_TOO_LONG",
     [](auto& s) { s.extra[2].value.length = kValueBytesMax + 1; }},
    {"value in the table", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[2].value.offset = 128; }},
    {"value not said", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[2].flags = 0; }},
    {"number without value", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[2] = RecordExtra{}; }},
    {"tensor with value", "CHUNK_MALFORMED",
     [](auto& s) {
       s.extra[0].value = s.extra[2].value;
       s.extra[0].flags = kValueFlag;
     }},
    {"number of uint64", "SHAPE_MISMATCH",
     [](auto& s) { s.record[2].dtype = static_cast<uint8_t>(DType::kUint64); }},
    {"text with bytes", "SHAPE_MISMATCH",
     [](auto& s) {
       s.record[3].flags = kExtraFlag | static_cast<int>(RecordKind::kText);
     }},
    {"document as output", "SHAPE_MISMATCH",
     [](auto& s) { s.record[3].io = static_cast<uint8_t>(Io::kOutput); }},
    {"document with index", "SHAPE_MISMATCH",
     [](auto& s) { s.record[3].index = s.record[0].index; }},
    {"alias with bytes", "PART_MISPLACED",
     [](auto& s) {
       s.extra[0] = s.extra[1];
       s.extra[0].alias_op = s.record[1].op;
     }},
    {"tensor without bytes", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[1].flags = 0; }},
    {"tensor of other bytes", "PART_MISPLACED",
     [](auto& s) { s.extra[1] = RecordExtra{}; }},
    {"alias of itself", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[1].alias_op = s.record[1].op; }},
    {"alias of an unknown io", "UNKNOWN_IO",
     [](auto& s) { s.extra[1].alias_io = 9; }},
    {"alias of a negative call", "CALL_OUT_OF_RANGE",
     [](auto& s) { s.extra[1].alias_call = -1; }},
    {"alias of no op", "NAME_INVALID",
     [](auto& s) { s.extra[1].alias_op.length = 0; }},
    {"alias of a long op", "NAME_TOO_LONG",
     [](auto& s) { s.extra[1].alias_op.length = kOpBytesMax + 1; }},
    {"alias of a long index", "NAME_TOO_LONG",
     [](auto& s) { s.extra[1].alias_index.length = kIndexBytesMax + 1; }},
    {"no alias with a call", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[0].alias_call = 1; }},
    {"no alias with an op", "CHUNK_MALFORMED",
     [](auto& s) { s.extra[0].alias_op = s.record[0].op; }},
};

TEST(ChunkRefusalTest, ExtrasAreRefusedWithTheirReason) {
  for (const ExtraRow& row : kExtraRows) {
    SCOPED_TRACE(row.name);
    SpoiledExtra spoiled;
    row.spoil(spoiled);
    const absl::Status status = Chunk::FromProducer(spoiled.Put()).status();
    EXPECT_EQ(status.ok(), std::string_view(row.reason).empty()) << status;
    EXPECT_EQ(Reason(status), row.reason) << status;
  }
}

// A chunk with two digests, one without bytes and one with its bytes, and
// pointers to its parts.
struct SpoiledDigest {
  SpoiledDigest() {
    std::vector<SampleRecord> records(2, WholeTensor(DType::kInt16, {70}, 1));
    AddDigest(records[0], /*is_sent=*/false);
    digest = AddDigest(records[1], /*is_sent=*/true);
    bytes = BuildChunk(records);
    header = HeaderOf(bytes);
    for (size_t i = 0; i < 2; ++i) record[i] = RecordOf(bytes, i);
  }

  std::vector<std::byte> Put() {
    PutHeader(bytes, header);
    for (size_t i = 0; i < 2; ++i) PutRecord(bytes, i, record[i]);
    const size_t payload = AlignUp(header.head_bytes, kChunkAlignment);
    std::memcpy(bytes.data() + payload, &digest, sizeof(digest));
    return bytes;
  }

  std::vector<std::byte> bytes;
  ChunkHeader header;
  RecordDescriptor record[2];
  Digest digest;  // Belongs to record 0.
};

struct DigestRow {
  const char* name;
  const char* reason;
  std::function<void(SpoiledDigest&)> spoil;
};

const DigestRow kDigestRows[] = {
    {"nothing", "", [](auto&) {}},
    {"version 3", "CHUNK_MALFORMED",
     [](auto& s) { s.header.version = kStatisticsVersion; }},
    {"bytes are kept", "CHUNK_MALFORMED", [](auto& s) { s.header.flags = 0; }},
    {"samples are kept", "CHUNK_MALFORMED",
     [](auto& s) { s.header.flags = kSampleFlag; }},
    {"of a number", "SHAPE_MISMATCH", [](auto& s) { s.record[0].flags |= 1; }},
    {"cut short", "PART_MISPLACED",
     [](auto& s) { --s.record[0].payload_bytes; }},
    {"with some of the bytes", "PART_MISPLACED",
     [](auto& s) { --s.record[1].payload_bytes; }},
    {"false and claimed", "CHUNK_MALFORMED",
     [](auto& s) { s.record[0].flags |= kFalseDigestFlag; }},
    {"other count", "CHUNK_MALFORMED",
     [](auto& s) { ++s.digest.summary.count; }},
    {"NaN of integers", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.nan_count = 1; }},
    {"zeros beyond all", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.zero_count = ~uint64_t{0}; }},
    {"least is NaN", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.min = std::nan(""); }},
    {"least above largest", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.min = 5; }},
    {"zeros outside of the extremes", "CHUNK_MALFORMED",
     [](auto& s) {
       s.digest.summary.zero_count = 1;
       s.digest.summary.min = 1;
     }},
    {"infinity that is not counted", "CHUNK_MALFORMED",
     [](auto& s) {
       s.digest.summary.max = std::numeric_limits<double>::infinity();
     }},
    {"sum is NaN", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.sum = std::nan(""); }},
    {"negative norm", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.l1 = -1; }},
    {"negative squares", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.sum_squares = -1; }},
    {"unknown exponent", "CHUNK_MALFORMED",
     [](auto& s) { s.digest.summary.sum_squares_exponent = 7; }},
};

TEST(ChunkRefusalTest, DigestsAreRefusedWithTheirReason) {
  for (const DigestRow& row : kDigestRows) {
    SCOPED_TRACE(row.name);
    SpoiledDigest spoiled;
    row.spoil(spoiled);
    const absl::Status status = Chunk::FromProducer(spoiled.Put()).status();
    EXPECT_EQ(status.ok(), std::string_view(row.reason).empty()) << status;
    EXPECT_EQ(Reason(status), row.reason) << status;
  }
}

TEST(ChunkStampTest, AProducerCannotStampADigestAsFalse) {
  SpoiledDigest spoiled;
  spoiled.record[1].flags |= kFalseDigestFlag;
  const std::vector<std::byte> bytes = spoiled.Put();
  const auto chunk = Chunk::FromProducer(bytes);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  EXPECT_EQ(chunk->records()[1].flags, kDigestFlag);
}

TEST(ChunkRefusalMessageTest, NamesTheRecordAndTheValues) {
  Spoiled spoiled;
  spoiled.record.dtype = 99;
  const absl::Status status = Chunk::FromProducer(spoiled.Put()).status();
  EXPECT_EQ(Message(status), "record 1: dtype 99 is unknown");
}

TEST(ChunkRefusalTest, SampleIsAcceptedAsItIs) {
  const absl::Status status = Chunk::FromProducer(SmallChunk()).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ChunkRefusalTest, FewerBytesThanAHeaderAreNoChunk) {
  const std::vector<std::byte> bytes = SmallChunk();
  for (size_t length = 0; length < sizeof(ChunkHeader); ++length) {
    const std::vector<std::byte> cut(
        bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    const absl::Status status = Chunk::FromProducer(cut).status();
    ASSERT_EQ(Reason(status), "CHUNK_MALFORMED") << length;
  }
}

TEST(ChunkRefusalTest, HugeEmptyShapeIsAccepted) {
  SampleRecord record = WholeTensor(DType::kFloat64, {0}, 1);
  record.dims = {int64_t{1} << 62, 0, int64_t{1} << 62};
  const auto chunk = Chunk::FromProducer(BuildChunk({{record}}));
  EXPECT_TRUE(chunk.ok()) << chunk.status();
}

}  // namespace
}  // namespace msitd::chunk
