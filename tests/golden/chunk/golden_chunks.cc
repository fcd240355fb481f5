// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/chunk/golden_chunks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/chunk/chunk.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::chunk {
namespace {

constexpr int64_t kClientTimeNs = 1700000000000000000;

class Maker {
 public:
  explicit Maker(std::string_view run)
      : buffer_(ChunkBuilder::kBufferBytes), builder_(buffer_.span()) {
    builder_.Start(run, 1, 0x1122334455667788, 7);
  }

  void Add(RecordSpec record, std::span<const std::byte> payload) {
    record.part_bytes = payload.size();
    const std::span<std::byte> out = builder_.Add(record);
    MSITD_CHECK(out.data() != nullptr);
    std::copy(payload.begin(), payload.end(), out.begin());
  }

  std::vector<std::byte> Finish() {
    const std::span<const std::byte> bytes = builder_.Finish(kClientTimeNs);
    return {bytes.begin(), bytes.end()};
  }

 private:
  AlignedBuffer buffer_;
  ChunkBuilder builder_;
};

std::vector<std::byte> OneTensor() {
  constexpr std::array<float, 4> kValues = {1.0f, -2.0f, 0.5f, 0.0f};
  constexpr int64_t kDims[] = {2, 2};
  Maker maker("golden-fp32");
  maker.Add({.sequence = 42,
             .device = "cpu:0",
             .token = 3,
             .op = "layer.0.dense",
             .call = 0,
             .io = Io::kOutput,
             .index = "0",
             .dtype = DType::kFloat32,
             .dims = kDims,
             .tensor_bytes = sizeof(kValues)},
            std::as_bytes(std::span(kValues)));
  return maker.Finish();
}

// Adds three elements of each of these dtypes, and returns the last record.
RecordSpec AddDTypes(Maker& maker, int first, int last) {
  RecordSpec record;
  record.device = "npu:1";
  record.io = Io::kInput;
  static constexpr int64_t kThree[] = {3};
  for (int i = first; i <= last; ++i) {
    record.sequence = static_cast<uint64_t>(i);
    record.dtype = static_cast<DType>(i);
    record.dims = kThree;
    record.tensor_bytes = 3 * ElementBytes(record.dtype);
    const std::string op =
        "model/\xcf\x86 " + std::string(DTypeName(record.dtype));
    record.op = op;
    std::vector<std::byte> payload(record.tensor_bytes);
    for (size_t b = 0; b < payload.size(); ++b) {
      payload[b] = static_cast<std::byte>(i + b);
    }
    maker.Add(record, payload);
  }
  return record;
}

// All dtypes of version 1, with different shapes.
std::vector<std::byte> EveryDType() {
  Maker maker("every dtype");
  RecordSpec record = AddDTypes(maker, 1, 17);
  const double pi = 3.25;
  record.op = "scalar";
  record.index = "alpha";
  record.dtype = DType::kFloat64;
  record.dims = {};
  record.tensor_bytes = sizeof(pi);
  maker.Add(record, std::as_bytes(std::span(&pi, 1)));
  constexpr int64_t kEmpty[] = {4, 0};
  record.op = "empty";
  record.dims = kEmpty;
  record.tensor_bytes = 0;
  maker.Add(record, {});
  return maker.Finish();
}

std::vector<std::byte> SmallDTypes() {
  Maker maker("small dtypes");
  AddDTypes(maker, 18, 30);
  return maker.Finish();
}

// The dtypes that were added later.
std::vector<std::byte> DTypesOfTorch() {
  Maker maker("dtypes of torch");
  AddDTypes(maker, 31, kDTypeCount - 1);
  return maker.Finish();
}

std::vector<std::byte> LastPart() {
  constexpr std::array<int32_t, 3> kTail = {1, 2, 3};
  constexpr int64_t kDims[] = {kPartBytes / 4 + 3};
  Maker maker("large");
  maker.Add({.sequence = 0,
             .device = "cpu:0",
             .token = 0,
             .op = "embedding",
             .io = Io::kWeight,
             .index = "weight",
             .dtype = DType::kInt32,
             .dims = kDims,
             .tensor_bytes = kPartBytes + sizeof(kTail),
             .part_offset = kPartBytes},
            std::as_bytes(std::span(kTail)));
  return maker.Finish();
}

std::vector<std::byte> Placed() {
  constexpr std::array<float, 3> kRow = {1.0f, 2.0f, 3.0f};
  constexpr int64_t kDims[] = {1, 3};
  Maker maker("placed");
  RecordSpec record{.sequence = 1,
                    .device = "cuda:1",
                    .token = 0,
                    .op = "up",
                    .io = Io::kOutput,
                    .index = "0",
                    .dtype = DType::kFloat32,
                    .dims = kDims,
                    .tensor_bytes = sizeof(kRow),
                    .placement = "0+2x4/4x1:R,S(0)"};
  maker.Add(record, std::as_bytes(std::span(kRow)));
  record.sequence = 2;
  record.op = "down";
  record.placement = "0+8/1:P(sum)";
  maker.Add(record, std::as_bytes(std::span(kRow)));
  record.sequence = 3;
  record.op = "alone";
  record.placement = {};
  maker.Add(record, std::as_bytes(std::span(kRow)));
  return maker.Finish();
}

// Sets the stamps of a frame, except those of its records.
void StampHeader(ChunkHeader& header) {
  header.run_id = 2;
  header.segment_id = 1;
  header.frame_offset = 8192;
  header.durable_bytes = 8192;
  header.frame_sequence = 5;
  header.receive_time_ns = kClientTimeNs + 500000000;
  header.store_id = 0xa1b2c3d4e5f60718;
}

std::vector<std::byte> Frame(std::span<const std::byte> sent) {
  auto chunk = Chunk::FromProducer(sent);
  MSITD_CHECK(chunk.ok());
  StampHeader(chunk->header());
  RecordDescriptor& record = chunk->records()[0];
  record.summary.count = 4;
  record.summary.zero_count = 1;
  record.summary.min = -2;
  record.summary.max = 1;
  record.summary.sum = -0.5;
  record.summary.l1 = 3.5;
  record.summary.sum_squares = 5.25;
  record.hash = HashBytes(chunk->PayloadOf(record));
  chunk->StampChecksum();
  std::vector<std::byte> out(chunk->head().begin(), chunk->head().end());
  out.insert(out.end(), chunk->payload().begin(), chunk->payload().end());
  return out;
}

void AddTensors(Maker& maker) {
  constexpr std::array<float, 4> kValues = {1.0f, -2.0f, 0.5f, 0.0f};
  constexpr int64_t kDims[] = {2, 2};
  RecordSpec record{.sequence = 50,
                    .device = "cpu:0",
                    .token = 3,
                    .op = "linear",
                    .io = Io::kOutput,
                    .index = "0",
                    .dtype = DType::kFloat32,
                    .dims = kDims,
                    .tensor_bytes = sizeof(kValues),
                    .requires_grad = true,
                    .stack = "model.py:7 forward\ntrain.py:31 <module>"};
  maker.Add(record, std::as_bytes(std::span(kValues)));
  record.sequence = 51;
  record.op = "relu";
  record.call = 2;
  record.io = Io::kInput;
  record.requires_grad = false;
  record.stack = {};
  record.alias = {.op = "linear", .call = 0, .io = Io::kOutput, .index = "0"};
  maker.Add(record, {});
}

void AddValues(Maker& maker) {
  const double half = 0.5;
  RecordSpec record{.sequence = 52,
                    .device = "cpu:0",
                    .token = 3,
                    .op = "dropout",
                    .io = Io::kInput,
                    .index = "p",
                    .dtype = DType::kFloat64,
                    .dims = {},
                    .tensor_bytes = sizeof(half),
                    .kind = RecordKind::kNumber,
                    .value = "0.5"};
  maker.Add(record, std::as_bytes(std::span(&half, 1)));
  constexpr int64_t kNothing[] = {0};
  record.dtype = DType::kUint8;
  record.dims = kNothing;
  record.tensor_bytes = 0;
  const auto add = [&](RecordKind kind, std::string_view index,
                       std::string_view value) {
    ++record.sequence;
    record.kind = kind;
    record.index = index;
    record.value = value;
    maker.Add(record, {});
  };
  add(RecordKind::kText, "mode", "sum");
  add(RecordKind::kText, "suffix", "");
  add(RecordKind::kNone, "mask", "None");
  add(RecordKind::kDType, "dtype", "torch.float32");
  add(RecordKind::kOther, "0", "slice(None, 4, None)");
}

// Every kind of record, an alias, stacks and gradients.
std::vector<std::byte> EveryKind() {
  constexpr std::string_view kTree = "{\"class\": \"Net\"}";
  Maker maker("every kind");
  AddTensors(maker);
  AddValues(maker);
  constexpr int64_t kDims[] = {int64_t{kTree.size()}};
  maker.Add({.sequence = 60,
             .device = "cpu:0",
             .token = 3,
             .op = "module_tree.json",
             .io = Io::kState,
             .index = "",
             .dtype = DType::kUint8,
             .dims = kDims,
             .tensor_bytes = kTree.size(),
             .kind = RecordKind::kDocument},
            std::as_bytes(std::span(kTree)));
  return maker.Finish();
}

// EveryKind as stored in a segment.
std::vector<std::byte> EveryKindFrame() {
  const std::vector<std::byte> sent = EveryKind();
  auto chunk = Chunk::FromProducer(sent);
  MSITD_CHECK(chunk.ok());
  StampHeader(chunk->header());
  for (RecordDescriptor& record : chunk->records()) {
    const RecordExtra extra = chunk->ExtraOf(record);
    record.hash =
        IsTextOnly(KindOf(record))
            ? HashBytes(std::as_bytes(std::span(chunk->Text(extra.value))))
            : HashBytes(chunk->PayloadOf(record));
  }
  RecordDescriptor& alias = chunk->records()[1];
  alias.hash = chunk->records()[0].hash;
  alias.bytes_segment_id = chunk->header().segment_id;
  alias.bytes_offset = chunk->header().frame_offset + chunk->head().size();
  chunk->StampChecksum();
  std::vector<std::byte> out(chunk->head().begin(), chunk->head().end());
  out.insert(out.end(), chunk->payload().begin(), chunk->payload().end());
  return out;
}

// Records of statistics next to values.
std::vector<std::byte> Statistics() {
  Maker maker("statistics");
  AddValues(maker);
  constexpr int64_t kDims[] = {2, 3};
  RecordSpec record{.sequence = 70,
                    .device = "npu:0",
                    .token = 3,
                    .op = "Module.conv1.Conv2d",
                    .io = Io::kOutput,
                    .index = "0",
                    .dtype = DType::kBfloat16,
                    .dims = kDims,
                    .kind = RecordKind::kStatistics,
                    .requires_grad = true,
                    .value = "{\"max\": 1.5, \"min\": \"-inf\"}",
                    .stack = "model.py:7 forward"};
  maker.Add(record, {});
  record.sequence = 71;
  record.index = "1";
  record.dtype = DType::kInt64;
  record.dims = {};
  record.requires_grad = std::nullopt;
  record.value = "{}";
  record.stack = {};
  maker.Add(record, {});
  return maker.Finish();
}

// A digest without bytes, a digest with its bytes, a tensor without a digest,
// and an alias. Only summaries are kept.
std::vector<std::byte> Digests() {
  constexpr std::array<int16_t, 72> kValues = {3, -2, 4, 0};
  constexpr int64_t kDims[] = {72};
  AlignedBuffer memory(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder(memory.span());
  builder.Start("golden-fp32", 1, 0x1122334455667788, 9);
  builder.KeepSummariesOnly();
  Digest digest;
  digest.summary.count = kValues.size();
  digest.summary.zero_count = kValues.size() - 3;
  digest.summary.min = -2;
  digest.summary.max = 4;
  digest.summary.sum = 5;
  digest.summary.l1 = 9;
  digest.summary.sum_squares = 29;
  digest.hash = HashBytes(std::as_bytes(std::span(kValues)));
  RecordSpec record{.sequence = 80,
                    .device = "cpu:0",
                    .token = 3,
                    .op = "layer.1.dense",
                    .io = Io::kOutput,
                    .index = "0",
                    .dtype = DType::kInt16,
                    .dims = kDims,
                    .tensor_bytes = sizeof(kValues),
                    .part_bytes = sizeof(digest),
                    .has_digest = true};
  std::memcpy(builder.Add(record).data(), &digest, sizeof(digest));
  record.sequence = 81;
  record.index = "1";
  record.part_bytes = kDigestSpan + sizeof(kValues);
  const std::span<std::byte> both = builder.Add(record);
  std::fill(both.begin(), both.end(), std::byte{0});
  std::memcpy(both.data(), &digest, sizeof(digest));
  std::memcpy(both.data() + kDigestSpan, kValues.data(), sizeof(kValues));
  record.sequence = 82;
  record.index = "2";
  record.part_bytes = sizeof(kValues);
  record.has_digest = false;
  std::memcpy(builder.Add(record).data(), kValues.data(), sizeof(kValues));
  record.sequence = 83;
  record.op = "view";
  record.part_bytes = 0;
  record.alias = {"layer.1.dense", 0, Io::kOutput, "0"};
  builder.Add(record);
  const std::span<const std::byte> bytes = builder.Finish(kClientTimeNs);
  return {bytes.begin(), bytes.end()};
}

// Digests as stored in a segment. The second digest is false, and the alias
// refers to a digest that was not verified.
std::vector<std::byte> DigestsFrame() {
  const std::vector<std::byte> sent = Digests();
  auto chunk = Chunk::FromProducer(sent);
  MSITD_CHECK(chunk.ok());
  StampHeader(chunk->header());
  const std::span<RecordDescriptor> records = chunk->records();
  records[1].flags |= kFalseDigestFlag;
  records[1].hash = {1, 2};
  records[2].summary = records[0].summary;
  records[2].hash = records[0].hash;
  records[3].summary = records[0].summary;
  records[3].hash = records[0].hash;
  records[3].flags |= kDigestFlag;
  records[3].bytes_segment_id = chunk->header().segment_id;
  records[3].bytes_offset = chunk->header().frame_offset + chunk->head().size();
  chunk->StampChecksum();
  return {chunk->head().begin(), chunk->head().end()};
}

std::vector<std::byte> SampleFrame() {
  std::vector<int16_t> values(1030);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int16_t>(i);
  }
  const int64_t dims[] = {static_cast<int64_t>(values.size())};
  constexpr std::array<float, 3> kShort = {1.5f, -2.5f, 4.0f};
  constexpr int64_t kShortDims[] = {3};
  AlignedBuffer memory(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder(memory.span());
  builder.Start("golden-fp32", 1, 0x1122334455667788, 8);
  builder.KeepSamples();
  RecordSpec record{.sequence = 43,
                    .device = "cpu:0",
                    .token = 3,
                    .op = "layer.1.dense",
                    .io = Io::kOutput,
                    .index = "0",
                    .dtype = DType::kInt16,
                    .dims = dims,
                    .tensor_bytes = values.size() * sizeof(int16_t),
                    .part_bytes = values.size() * sizeof(int16_t)};
  std::memcpy(builder.Add(record).data(), values.data(), record.part_bytes);
  record.sequence = 44;
  record.index = "1";
  record.dtype = DType::kFloat32;
  record.dims = kShortDims;
  record.tensor_bytes = record.part_bytes = sizeof(kShort);
  std::memcpy(builder.Add(record).data(), kShort.data(), record.part_bytes);
  auto chunk = Chunk::FromProducer(builder.Finish(kClientTimeNs));
  MSITD_CHECK(chunk.ok());
  StampHeader(chunk->header());
  for (RecordDescriptor& stamped : chunk->records()) {
    stamped.hash = HashBytes(chunk->PayloadOf(stamped));
  }
  AlignedBuffer samples;
  const std::span<const std::byte> payload = chunk->GatherSamples(samples);
  chunk->StampChecksum();
  std::vector<std::byte> out(chunk->head().begin(), chunk->head().end());
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

}  // namespace

std::vector<GoldenChunk> MakeGoldenChunks() {
  const std::vector<std::byte> one_tensor = OneTensor();
  return {{"v1/one_tensor.chunk", one_tensor},
          {"v1/every_dtype.chunk", EveryDType()},
          {"v1/small_dtypes.chunk", SmallDTypes()},
          {"v1/dtypes_of_torch.chunk", DTypesOfTorch()},
          {"v1/last_part.chunk", LastPart()},
          {"v1/placed.chunk", Placed()},
          {"v1/frame.chunk", Frame(one_tensor)},
          {"v1/sample_frame.chunk", SampleFrame()},
          {"v2/every_kind.chunk", EveryKind()},
          {"v2/every_kind_frame.chunk", EveryKindFrame()},
          {"v3/statistics.chunk", Statistics()},
          {"v4/digests.chunk", Digests()},
          {"v4/digests_frame.chunk", DigestsFrame()}};
}

}  // namespace msitd::chunk
