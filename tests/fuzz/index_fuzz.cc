// SPDX-License-Identifier: Apache-2.0
// Keys and values of the index. A key or value that can be decoded is encoded
// to the same bytes.
#include "protos/base/check.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"
#include "storage/index/db/row_block.h"
#include "storage/index/table/attachment_table.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::storage {
namespace {

enum Kind : uint8_t {
  kKey,
  kEntry,
  kStore,
  kRun,
  kCounters,
  kPosition,
  kMark,
  kCount,
  kCoverage,
  kPlace,
  kRanges,
  kRows,
  kAttachment,
  kKindCount,
};

template <typename Value, typename Decode, typename Encode>
void TryValue(std::string_view bytes, Decode decode, Encode encode) {
  Value value{};
  if (!decode(bytes, value)) return;
  const std::string encoded = encode(value);
  Value again{};
  MSITD_CHECK(decode(encoded, again));
  MSITD_CHECK(encode(again) == encoded);
}

void TryKey(std::string_view bytes) {
  const std::optional<IndexKey> key = DecodeIndexKey(bytes);
  if (key.has_value()) MSITD_CHECK(View(EncodeIndexKey(*key)) == bytes);
}

std::string EncodedValue(const IndexValue& value) {
  std::string out = "what was there before";
  EncodeIndexValue(value, out);
  return out;
}

void Try(Kind kind, std::string_view bytes) {
  switch (kind) {
    case kKey:
      return TryKey(bytes);
    case kEntry:
      return TryValue<IndexValue>(bytes, DecodeIndexValue, EncodedValue);
    case kStore:
      return TryValue<uint64_t>(
          bytes,
          [](std::string_view in, uint64_t& out) {
            bool is_newest = false;
            return DecodeStoreId(in, out, is_newest);
          },
          EncodeStoreId);
    case kRun:
      return TryValue<RunInfo>(bytes, DecodeRun, EncodeRun);
    case kCounters:
      return TryValue<RunCounters>(bytes, DecodeCounters, EncodeCounters);
    case kPosition:
      return TryValue<LogPosition>(bytes, DecodePosition, EncodePosition);
    case kMark:
      return TryValue<ExpiryMark>(bytes, DecodeExpiryMark, EncodeExpiryMark);
    case kCount:
      return TryValue<uint64_t>(bytes, DecodeChunkCount, EncodeChunkCount);
    case kCoverage:
      return TryValue<StreamCoverage>(bytes, DecodeCoverage, EncodeCoverage);
    case kPlace:
      return TryValue<BytePlace>(bytes, DecodeBytePlace, EncodeBytePlace);
    case kRanges:
      return TryValue<std::vector<ByteRange>>(bytes, DecodeByteRanges,
                                              EncodeByteRanges);
    case kRows:
      return TryValue<std::vector<std::string>>(bytes, DecodeRows, EncodeRows);
    case kAttachment:
      return TryValue<AttachmentInfo>(bytes, DecodeAttachment,
                                      EncodeAttachment);
    case kKindCount:
      return;
  }
}

std::string SeedOf(Kind kind, std::string_view bytes) {
  return static_cast<char>(kind) + std::string(bytes);
}

IndexValue SampleValue() {
  IndexValue value;
  value.dtype = DType::kFloat32;
  value.dims = {2, 300};
  value.tensor_bytes = 2400;
  value.sequence = 5;
  value.segment_id = 1;
  value.offset = 8192;
  value.hash = {0x1111, 0x2222};
  value.summary.count = 600;
  value.summary.min = -1;
  value.summary.max = 2;
  return value;
}

IndexValue SampledValue() {
  IndexValue value = SampleValue();
  value.has_bytes = false;
  value.has_sample = true;
  value.sample_hash = 0x3333;
  return value;
}

IndexValue ValueWithExtras() {
  IndexValue value = SampleValue();
  value.requires_grad = false;
  value.has_value = true;
  value.value = "0.5";
  value.stack = 6;
  value.alias_op = 4;
  value.alias_io = Io::kOutput;
  value.alias_index = 5;
  return value;
}

std::vector<std::string> SeedList() {
  const IndexKey key{.run = 1,
                     .rank = 2,
                     .device = 3,
                     .token = 7,
                     .op = 4,
                     .call = 0,
                     .io = Io::kOutput,
                     .index = 5,
                     .part = 0};
  RunInfo run;
  run.spec.world_size = 8;
  run.capture_policy = "what to record";
  run.spec.labels = {{"model", "small"}};
  RunCounters counters;
  counters.tensor_count = 300;
  AttachmentInfo attachment;
  attachment.id = 7;
  attachment.media_type = "application/json";
  attachment.size_bytes = 700'000;
  attachment.hash = {0x1111, 0x2222};
  const std::vector<std::string> rows = {"a row", "a red row", "", "another"};
  return {
      SeedOf(kKey, View(EncodeIndexKey(key))),
      SeedOf(kEntry, EncodedValue(SampleValue())),
      SeedOf(kEntry, EncodedValue(SampledValue())),
      SeedOf(kEntry, EncodedValue(ValueWithExtras())),
      SeedOf(kStore, EncodeStoreId(99)),
      SeedOf(kRun, EncodeRun(run)),
      SeedOf(kCounters, EncodeCounters(counters)),
      SeedOf(kPosition, EncodePosition({3, 1 << 20, 17})),
      SeedOf(kMark, EncodeExpiryMark({8192, 4096, 300})),
      SeedOf(kCount, EncodeChunkCount(1000)),
      SeedOf(kCoverage, EncodeCoverage({300, 20, 1, 0, 5})),
      SeedOf(kPlace, EncodeBytePlace({3, 70'000})),
      SeedOf(kRanges, EncodeByteRanges({{{1, 8192}, 40'000}, {{300, 0}, 1}})),
      SeedOf(kRows, EncodeRows(rows)),
      SeedOf(kAttachment, EncodeAttachment(attachment))};
}

}  // namespace
}  // namespace msitd::storage

namespace msitd::fuzz {

std::vector<std::string> Seeds() { return storage::SeedList(); }

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::fuzz::Input input(data, size);
  const auto kind = static_cast<msitd::storage::Kind>(
      input.Get<uint8_t>() % msitd::storage::kKindCount);
  msitd::storage::Try(kind, input.rest());
  return 0;
}
