// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>

#include "protos/base/byte_codec.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[static_cast<uint8_t>(byte) >> 4];
    out += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return out;
}

IndexValue ExampleValue() {
  IndexValue value;
  value.dtype = DType::kFloat32;
  value.dims = {2, 300};
  value.tensor_bytes = 2400;
  value.sequence = 5;
  value.segment_id = 1;
  value.offset = 8192;
  value.hash = {0x1111111111111111, 0x2222222222222222};
  value.summary.count = 600;
  value.summary.nan_count = 1;
  value.summary.min = -1;
  value.summary.max = 2;
  value.summary.sum = 0.5;
  value.summary.l1 = 4;
  value.summary.sum_squares = 8;
  value.summary.sum_squares_exponent = -1;
  return value;
}

// The example in docs/format/index.md.
constexpr char kExampleKey[] =
    "00000001000002000000030000000007000000040000000002000000"
    "05000000";
constexpr char kExampleValue[] =
    "010c010202ac02e012050180401111111111111111222222222222"
    "2222d804010000"
    "00000000000000f0bf0000000000000040000000000000e03f00000000000010400000"
    "00000000204001";

TEST(IndexFormatTest, KeyAndValueHaveTheBytesOfTheDocument) {
  const IndexKey key{1, 2, 3, 7, 4, 0, Io::kOutput, 5, 0};
  EXPECT_EQ(Hex(View(EncodeIndexKey(key))), kExampleKey);
  std::string bytes;
  EncodeIndexValue(ExampleValue(), bytes);
  EXPECT_EQ(Hex(bytes), kExampleValue);
}

TEST(IndexFormatTest, KeysSortAsTheirFieldsDo) {
  std::mt19937 random(7);
  const auto pick = [&random](uint64_t max) -> uint64_t {
    const uint64_t choices[] = {0, 1, 2, 255, 256, max / 2, max - 1, max};
    return std::min(choices[random() % 8], max);
  };
  const auto fields = [](const IndexKey& key) {
    return std::tuple(key.run, key.rank, key.device, key.token, key.op,
                      key.call, key.io, key.index, key.part);
  };
  std::vector<IndexKey> keys;
  constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
  for (int i = 0; i < 300; ++i) {
    IndexKey key;
    key.run = static_cast<uint32_t>(pick(kMax32));
    key.rank = static_cast<uint32_t>(pick(kRankMax));
    key.device = static_cast<uint32_t>(pick(kMax32));
    key.token = pick(kTokenMax);
    key.op = static_cast<uint32_t>(pick(kMax32));
    key.call = static_cast<uint32_t>(pick(kCallMax));
    key.io = static_cast<Io>(pick(kIoCount - 1));
    key.index = static_cast<uint32_t>(pick(kMax32));
    key.part = static_cast<uint32_t>(pick((1 << 24) - 1));
    EXPECT_EQ(DecodeIndexKey(View(EncodeIndexKey(key))), key);
    keys.push_back(key);
  }
  for (const IndexKey& a : keys) {
    for (const IndexKey& b : keys) {
      EXPECT_EQ(View(EncodeIndexKey(a)) < View(EncodeIndexKey(b)),
                fields(a) < fields(b));
    }
  }
  EXPECT_FALSE(DecodeIndexKey("short").has_value());
  EXPECT_FALSE(DecodeIndexKey(std::string(33, 'x')).has_value());
}

IndexValue ExampleOfExtras() {
  IndexValue value = ExampleValue();
  value.requires_grad = true;
  value.stack = 6;
  value.alias_op = 4;
  value.alias_call = 2;
  value.alias_io = Io::kOutput;
  value.alias_index = 5;
  return value;
}

TEST(IndexFormatTest, ExtrasHaveTheBytesOfTheDocument) {
  std::string bytes;
  EncodeIndexValue(ExampleOfExtras(), bytes);
  const std::string example = kExampleValue;
  EXPECT_EQ(Hex(bytes), "020c09" + example.substr(6) +
                            "1006060402"
                            "0205");
  EXPECT_TRUE(HasExtras(bytes));
  IndexValue text = ExampleValue();
  text.kind = RecordKind::kText;
  text.has_value = true;
  text.value = "sum";
  EncodeIndexValue(text, bytes);
  EXPECT_EQ(Hex(bytes), "020c09" + example.substr(6) + "02010373756d");
  EncodeIndexValue(ExampleValue(), bytes);
  EXPECT_FALSE(HasExtras(bytes));
}

TEST(IndexFormatTest, ExtrasComeBackAndDoNotStay) {
  std::string bytes;
  IndexValue out;
  const IndexValue alias = ExampleOfExtras();
  EncodeIndexValue(alias, bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_EQ(out.requires_grad, true);
  EXPECT_EQ(out.stack, 6u);
  EXPECT_EQ(out.alias_op, 4u);
  EXPECT_EQ(out.alias_call, 2u);
  EXPECT_EQ(out.alias_io, Io::kOutput);
  EXPECT_EQ(out.alias_index, 5u);
  EXPECT_FALSE(out.has_value);
  IndexValue empty_text = ExampleValue();
  empty_text.kind = RecordKind::kText;
  empty_text.has_value = true;
  EncodeIndexValue(empty_text, bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_EQ(out.kind, RecordKind::kText);
  EXPECT_TRUE(out.has_value);
  EXPECT_EQ(out.requires_grad, std::nullopt);
  EXPECT_EQ(out.alias_op, 0u);
  EXPECT_FALSE(out.SameTensor(ExampleValue()));
  EncodeIndexValue(ExampleValue(), bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_EQ(out.kind, RecordKind::kTensor);
  EXPECT_FALSE(out.has_value);
}

TEST(IndexFormatTest, NewCountsComeBackAndOldOnesAreWrittenAsBefore) {
  RunCounters counters;
  counters.tensor_count = 1;
  EXPECT_EQ(EncodeCounters(counters)[0], 1);
  counters.value_count = 7;
  counters.dangling_count = 8;
  RunCounters out;
  ASSERT_TRUE(DecodeCounters(EncodeCounters(counters), out));
  EXPECT_EQ(out.value_count, 7u);
  EXPECT_EQ(out.dangling_count, 8u);
  EXPECT_EQ(EncodeCounters(counters)[0], 2);
  counters.statistics_count = 300;
  counters.document_count = 2;
  ASSERT_TRUE(DecodeCounters(EncodeCounters(counters), out));
  EXPECT_EQ(out.value_count, 7u);
  EXPECT_EQ(out.statistics_count, 300u);
  EXPECT_EQ(out.document_count, 2u);
  StreamRepeats repeats{3, 2};
  EXPECT_EQ(EncodeRepeats(repeats)[0], 1);
  repeats.dangling_count = 9;
  StreamRepeats repeats_out;
  ASSERT_TRUE(DecodeRepeats(EncodeRepeats(repeats), repeats_out));
  EXPECT_EQ(repeats_out, repeats);
  EXPECT_EQ(EncodeRepeats(repeats)[0], 2);
  repeats.claimed_count = 300;
  repeats.checked_count = 4;
  repeats.false_count = 1;
  ASSERT_TRUE(DecodeRepeats(EncodeRepeats(repeats), repeats_out));
  EXPECT_EQ(repeats_out, repeats);
}

TEST(IndexFormatTest, ClaimsComeBackAndDoNotStay) {
  IndexValue value = ExampleValue();
  value.is_claimed = true;
  std::string bytes;
  EncodeIndexValue(value, bytes);
  IndexValue out;
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_TRUE(out.is_claimed);
  EncodeIndexValue(ExampleValue(), bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_FALSE(out.is_claimed);
}

TEST(IndexFormatTest, ValueComesBackAsItWas) {
  const IndexValue value = ExampleValue();
  std::string bytes;
  EncodeIndexValue(value, bytes);
  IndexValue out;
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_TRUE(out.SameTensor(value));
  EXPECT_EQ(out.sequence, value.sequence);
  EXPECT_EQ(out.segment_id, value.segment_id);
  EXPECT_EQ(out.offset, value.offset);
  EXPECT_EQ(out.hash, value.hash);
  EXPECT_EQ(out.summary, value.summary);
  EXPECT_TRUE(out.has_bytes);

  EXPECT_EQ(out.placement, 0u);

  IndexValue placed = ExampleValue();
  placed.placement = std::numeric_limits<uint32_t>::max();
  EncodeIndexValue(placed, bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_EQ(out.placement, placed.placement);
  EXPECT_TRUE(out.has_bytes);
  EXPECT_EQ(out.summary, placed.summary);

  IndexValue extreme;
  extreme.dtype = DType::kComplex128;
  extreme.dims.assign(kDimsMax, std::numeric_limits<int64_t>::max());
  extreme.tensor_bytes = kTensorBytesMax;
  extreme.sequence = extreme.segment_id = extreme.offset =
      std::numeric_limits<uint64_t>::max();
  extreme.has_bytes = false;
  extreme.summary.sum_squares_exponent = std::numeric_limits<int64_t>::min();
  EncodeIndexValue(extreme, bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_TRUE(out.SameTensor(extreme));
  EXPECT_EQ(out.offset, extreme.offset);
  EXPECT_EQ(out.summary, extreme.summary);
  EXPECT_FALSE(out.has_bytes);
}

TEST(IndexFormatTest, ValueHasBytesOrASampleNotBoth) {
  IndexValue value = ExampleValue();
  value.has_bytes = false;
  value.has_sample = true;
  value.sample_hash = 0x0123456789abcdef;
  std::string bytes;
  EncodeIndexValue(value, bytes);
  IndexValue out;
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_FALSE(out.has_bytes);
  EXPECT_TRUE(out.has_sample);
  EXPECT_EQ(out.sample_hash, value.sample_hash);
  EXPECT_EQ(out.hash, value.hash);
  EXPECT_EQ(out.summary, value.summary);
  // The output of the decoder may contain another value before.
  EncodeIndexValue(ExampleValue(), bytes);
  ASSERT_TRUE(DecodeIndexValue(bytes, out));
  EXPECT_FALSE(out.has_sample);
  EXPECT_EQ(out.sample_hash, 0u);
  value.has_bytes = true;
  EncodeIndexValue(value, bytes);
  EXPECT_FALSE(DecodeIndexValue(bytes, out));
}

// Expects that every prefix, and the bytes with one additional byte, are
// rejected.
template <typename Decode>
void ExpectOnlyWhole(const std::string& bytes, const Decode& decode) {
  EXPECT_TRUE(decode(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode(bytes + "x"));
  std::string other_version = bytes;
  other_version[0] = 99;
  EXPECT_FALSE(decode(other_version));
}

TEST(IndexFormatTest, CoverageOfFormerVersionsIsRead) {
  StreamCoverage out;
  ASSERT_TRUE(DecodeCoverage(std::string("\x01\x07\x03\x02\x01", 5), out));
  EXPECT_EQ(out, (StreamCoverage{7, 3, 2, 1, 0}));
  ASSERT_TRUE(DecodeCoverage(std::string("\x02\x07\x03\x02\x01\x04", 6), out));
  EXPECT_EQ(out, (StreamCoverage{7, 3, 2, 1, 4}));
  ASSERT_TRUE(DecodeCoverage(EncodeCoverage({7, 3, 2, 1, 4, 500, 6000}), out));
  EXPECT_EQ(out, (StreamCoverage{7, 3, 2, 1, 4, 500, 6000}));
  EXPECT_FALSE(DecodeCoverage(std::string("\x03\x07\x03\x02\x01\x00", 6), out));
  EXPECT_FALSE(
      DecodeCoverage(std::string("\x04\x07\x03\x02\x01\x00\x01\x01", 8), out));
}

TEST(IndexFormatTest, DamagedExtrasAreRefused) {
  std::string bytes;
  IndexValue out;
  for (IndexValue value : {ExampleOfExtras(), ExampleValue()}) {
    value.kind = RecordKind::kText;
    value.has_value = true;
    value.value = "sum";
    EncodeIndexValue(value, bytes);
    ExpectOnlyWhole(bytes, [](const std::string& in) {
      IndexValue decoded;
      return DecodeIndexValue(in, decoded);
    });
  }
  EncodeIndexValue(ExampleOfExtras(), bytes);
  const size_t extras = bytes.size() - 7;
  const auto refuses = [&](size_t at, char byte) {
    std::string bad = bytes;
    bad[at] = byte;
    return !DecodeIndexValue(bad, out);
  };
  EXPECT_TRUE(refuses(0, 1));            // Version 1 has no extras.
  EXPECT_TRUE(refuses(2, 1));            // Version 2 has extras.
  EXPECT_TRUE(refuses(extras, 24));      // requires_grad 3.
  EXPECT_TRUE(refuses(extras + 1, 8));   // Unknown extra.
  EXPECT_TRUE(refuses(extras + 2, 0));   // No name.
  EXPECT_TRUE(refuses(extras + 5, 99));  // No io.
}

TEST(IndexFormatTest, DamagedValuesAreRefused) {
  std::string bytes;
  EncodeIndexValue(ExampleValue(), bytes);
  ExpectOnlyWhole(bytes, [](const std::string& in) {
    IndexValue out;
    return DecodeIndexValue(in, out);
  });
  IndexValue placed = ExampleValue();
  placed.placement = 300;
  EncodeIndexValue(placed, bytes);
  ExpectOnlyWhole(bytes, [](const std::string& in) {
    IndexValue out;
    return DecodeIndexValue(in, out);
  });
  RunInfo run;
  run.id = RunId{300};
  run.spec = {"", 8, {{"a", "b"}, {"c", ""}}};
  run.create_time_ns = 1;
  run.seal_time_ns = -5;
  run.sealed = true;
  ExpectOnlyWhole(EncodeRun(run), [](const std::string& in) {
    RunInfo out;
    return DecodeRun(in, out);
  });
  RunInfo decoded;
  ASSERT_TRUE(DecodeRun(EncodeRun(run), decoded));
  EXPECT_EQ(decoded.id, run.id);
  EXPECT_EQ(decoded.spec.labels, run.spec.labels);
  EXPECT_EQ(decoded.spec.world_size, 8);
  EXPECT_EQ(decoded.seal_time_ns, -5);
  EXPECT_TRUE(decoded.sealed);
  ExpectOnlyWhole(EncodeCounters({1, 200, 3, 40000, 0, 0, 5, 600, 0}),
                  [](const std::string& in) {
                    RunCounters out;
                    return DecodeCounters(in, out);
                  });
  ExpectOnlyWhole(EncodePosition({1, 1 << 20, 300}), [](const std::string& in) {
    LogPosition out;
    return DecodePosition(in, out);
  });
  ExpectOnlyWhole(EncodeExpiryMark({70000, 4096, 300}),
                  [](const std::string& in) {
                    ExpiryMark out;
                    return DecodeExpiryMark(in, out);
                  });
  ExpectOnlyWhole(EncodeChunkCount(700), [](const std::string& in) {
    uint64_t out = 0;
    return DecodeChunkCount(in, out);
  });
  ExpectOnlyWhole(EncodeCoverage({700, 5, 3, 1, 200, 9000, 70000}),
                  [](const std::string& in) {
                    StreamCoverage out;
                    return DecodeCoverage(in, out);
                  });
}

TEST(IndexFormatTest, StoreOfAnOlderProgramIsKnownAndOfANewerOneIsNot) {
  uint64_t id = 0;
  bool is_newest = false;
  std::string bytes = EncodeStoreId(5);
  ExpectOnlyWhole(bytes, [&](const std::string& in) {
    return DecodeStoreId(in, id, is_newest);
  });
  ASSERT_TRUE(DecodeStoreId(bytes, id, is_newest));
  EXPECT_EQ(id, 5u);
  EXPECT_TRUE(is_newest);
  constexpr int kFirstVersion = 2;
  for (int older = kFirstVersion; older < StoreVersion(); ++older) {
    bytes[0] = static_cast<char>(older);
    ASSERT_TRUE(DecodeStoreId(bytes, id, is_newest)) << older;
    EXPECT_FALSE(is_newest) << older;
    EXPECT_EQ(NewerStoreVersion(bytes), 0) << older;
  }
  bytes[0] = kFirstVersion - 1;
  EXPECT_FALSE(DecodeStoreId(bytes, id, is_newest));
  EXPECT_EQ(NewerStoreVersion(bytes), 0);
  for (const int newer : {StoreVersion() + 1, 0xff}) {
    bytes[0] = static_cast<char>(newer);
    EXPECT_FALSE(DecodeStoreId(bytes, id, is_newest)) << newer;
    EXPECT_EQ(NewerStoreVersion(bytes), newer);
  }
  EXPECT_EQ(NewerStoreVersion(""), 0);
}

TEST(IndexFormatTest, ARunKnowsThatItIsBeingRestored) {
  for (const bool sealed : {false, true}) {
    for (const bool restoring : {false, true}) {
      RunInfo run;
      run.sealed = sealed;
      run.spec.restoring = restoring;
      RunInfo back;
      back.spec.restoring = !restoring;
      ASSERT_TRUE(DecodeRun(EncodeRun(run), back));
      EXPECT_EQ(back.spec.restoring, restoring);
      EXPECT_EQ(back.sealed, sealed);
    }
  }
}

TEST(IndexFormatTest, RunsOfOlderProgramsHaveNoOwner) {
  RunInfo run;
  run.spec.job = "job";
  run.spec.owner = "uid:7";
  std::string bytes = EncodeRun(run);
  RunInfo out;
  ASSERT_TRUE(DecodeRun(bytes, out));
  EXPECT_EQ(out.spec.owner, "uid:7");
  EXPECT_EQ(out.spec.job, "job");
  // Removes the length of the owner, and the owner.
  bytes.resize(bytes.size() - 1 - run.spec.owner.size());
  EXPECT_FALSE(DecodeRun(bytes, out));
  bytes[0] = 2;
  ASSERT_TRUE(DecodeRun(bytes, out));
  EXPECT_EQ(out.spec.owner, "");
  EXPECT_EQ(out.spec.job, "job");
}

TEST(IndexFormatTest, DamagedPlacesOfSharedBytesAreRefused) {
  ExpectOnlyWhole(EncodeBytePlace({3, 70'000}), [](const std::string& in) {
    BytePlace out;
    return DecodeBytePlace(in, out);
  });
  const std::vector<ByteRange> ranges = {{{1, 8192}, 40'000}, {{300, 0}, 1}};
  ExpectOnlyWhole(EncodeByteRanges(ranges), [](const std::string& in) {
    std::vector<ByteRange> out;
    return DecodeByteRanges(in, out);
  });
  std::vector<ByteRange> ranges_back = {{{1, 1}, 1}};
  ASSERT_TRUE(DecodeByteRanges(EncodeByteRanges(ranges), ranges_back));
  EXPECT_EQ(ranges_back, ranges);
}

TEST(ByteCodecTest, NumbersComeBackAtTheirBounds) {
  constexpr int64_t kSigned[] = {0,
                                 1,
                                 -1,
                                 63,
                                 -64,
                                 64,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
  constexpr uint64_t kUnsigned[] = {
      0, 127, 128, 16383, 16384, std::numeric_limits<uint64_t>::max()};
  std::string bytes;
  ByteWriter writer(bytes);
  for (const int64_t value : kSigned) writer.PutSigned(value);
  for (const uint64_t value : kUnsigned) writer.PutVarint(value);
  writer.PutText("text");
  ByteReader reader(bytes);
  for (const int64_t value : kSigned) EXPECT_EQ(reader.GetSigned(), value);
  for (const uint64_t value : kUnsigned) EXPECT_EQ(reader.GetVarint(), value);
  EXPECT_EQ(reader.GetText(), "text");
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.GetByte(), 0);
  EXPECT_FALSE(reader.ok());
}

TEST(ByteCodecTest, VarintWithoutEndAndTextBeyondTheEndAreRefused) {
  ByteReader endless(
      std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                       "\xff\xff\xff"));
  EXPECT_EQ(endless.GetVarint(), 0u);
  EXPECT_FALSE(endless.ok());
  ByteReader beyond(std::string_view("\x05text"));
  EXPECT_EQ(beyond.GetText(), "");
  EXPECT_FALSE(beyond.ok());
}

}  // namespace
}  // namespace msitd::storage
