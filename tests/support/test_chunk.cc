// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_chunk.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "protos/base/check.h"
#include "protos/chunk/chunk_builder.h"

namespace msitd::testing {
namespace {

chunk::RecordSpec SpecOf(const TestTensor& tensor) {
  chunk::RecordSpec spec;
  spec.sequence = tensor.sequence;
  spec.device = tensor.key.device;
  spec.token = tensor.key.token;
  spec.op = tensor.key.op;
  spec.call = tensor.key.call;
  spec.io = tensor.key.io;
  spec.index = tensor.key.index;
  spec.dtype = tensor.dtype;
  spec.dims = tensor.dims;
  spec.tensor_bytes = tensor.bytes.size();
  spec.part_offset = tensor.part * kPartBytes;
  spec.part_bytes = std::min(kPartBytes, spec.tensor_bytes - spec.part_offset);
  spec.placement = tensor.placement;
  spec.kind = tensor.kind;
  spec.requires_grad = tensor.requires_grad;
  spec.value = tensor.value;
  spec.stack = tensor.stack;
  if (tensor.original.has_value()) {
    const TensorKey& key = *tensor.original;
    spec.alias = {key.op, key.call, key.io, key.index};
    spec.part_bytes = 0;
  }
  if (tensor.digest.has_value()) {
    spec.has_digest = true;
    spec.part_bytes =
        tensor.is_sent ? chunk::kDigestSpan + spec.part_bytes : sizeof(Digest);
  }
  return spec;
}

void Fill(const TestTensor& record, const chunk::RecordSpec& spec,
          std::span<std::byte> out) {
  if (spec.has_digest) {
    std::memcpy(out.data(), &*record.digest, sizeof(Digest));
    out = out.subspan(std::min<size_t>(out.size(), chunk::kDigestSpan));
    if (!record.is_sent) return;
  }
  if (out.empty()) return;
  std::memcpy(out.data(), record.bytes.data() + spec.part_offset, out.size());
}

}  // namespace

Digest MakeDigest(uint64_t bytes, uint64_t hash) {
  Digest out;
  out.summary.count = bytes;
  out.summary.min = 1;
  out.summary.max = 9;
  out.summary.sum = out.summary.l1 = 5.0 * static_cast<double>(bytes);
  out.summary.sum_squares = 25.0 * static_cast<double>(bytes);
  out.hash = {hash, ~hash};
  return out;
}

TestTensor MakeTensor(std::string run, int64_t token, std::string op,
                      uint64_t byte_count, uint32_t seed) {
  TestTensor tensor;
  tensor.key = {std::move(run), 0, "cpu:0",     token,
                std::move(op),  0, Io::kOutput, std::string("0")};
  tensor.dims = {static_cast<int64_t>(byte_count)};
  tensor.bytes.resize(byte_count);
  std::minstd_rand random(seed);
  for (std::byte& byte : tensor.bytes) byte = std::byte(random() >> 8);
  return tensor;
}

TestTensor MakeAlias(const TestTensor& original, std::string op) {
  TestTensor out = original;
  out.key.op = std::move(op);
  out.original = original.key;
  out.digest.reset();
  return out;
}

TestTensor MakeValue(std::string run, int64_t token, RecordKind kind,
                     std::string index, std::string value) {
  TestTensor out = MakeTensor(std::move(run), token, "op", 0);
  out.key.io = Io::kInput;
  out.key.index = std::move(index);
  out.kind = kind;
  out.value = std::move(value);
  if (kind == RecordKind::kNumber) {
    out.dtype = DType::kFloat64;
    out.dims.clear();
    out.bytes.resize(sizeof(double));
  }
  return out;
}

TestTensor MakeStatistics(std::string run, int64_t token, std::string op,
                          std::string text) {
  TestTensor out = MakeTensor(std::move(run), token, std::move(op), 0);
  out.dtype = DType::kFloat32;
  out.dims = {2, 3};
  out.kind = RecordKind::kStatistics;
  out.value = std::move(text);
  return out;
}

void TestChunks::Add(uint64_t stream_id, uint64_t chunk_sequence,
                     const std::vector<TestTensor>& records) {
  AlignedBuffer buffer(chunk::ChunkBuilder::kBufferBytes);
  chunk::ChunkBuilder builder(buffer.span());
  const TensorKey& first = records.front().key;
  builder.Start(first.run, first.rank, stream_id, chunk_sequence);
  if (std::any_of(records.begin(), records.end(),
                  [](const auto& record) { return record.digest; })) {
    builder.KeepSummariesOnly();
  }
  for (const TestTensor& record : records) {
    const chunk::RecordSpec spec = SpecOf(record);
    const std::span<std::byte> out = builder.Add(spec);
    MSITD_CHECK(out.data() != nullptr);
    Fill(record, spec, out);
  }
  const std::span<const std::byte> bytes = builder.Finish(/*client_time_ns=*/1);
  AlignedBuffer memory(bytes.size());
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  auto chunk = chunk::Chunk::FromProducer(memory.span());
  MSITD_CHECK(chunk.ok());
  for (chunk::RecordDescriptor& record : chunk->records()) {
    const chunk::RecordExtra extra = chunk->ExtraOf(record);
    if (extra.is_alias() || chunk::IsClaimed(record)) continue;
    record.hash = IsTextOnly(chunk::KindOf(record))
                      ? chunk::HashBytes(
                            std::as_bytes(std::span(chunk->Text(extra.value))))
                      : chunk::HashBytes(chunk->PayloadOf(record));
    // Any numbers that differ between parts are suitable.
    record.summary.count = record.payload_bytes;
    record.summary.sum = static_cast<double>(record.hash.low >> 40);
    if (record.payload_bytes > 0) record.summary.min = record.summary.max = 7;
  }
  memory_.push_back(std::move(memory));
  chunks_.push_back(*std::move(chunk));
}

}  // namespace msitd::testing
