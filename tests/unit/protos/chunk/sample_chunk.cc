// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/protos/chunk/sample_chunk.h"

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::chunk {
namespace {

size_t RecordAt(size_t record) {
  return sizeof(ChunkHeader) + record * sizeof(RecordDescriptor);
}

}  // namespace

RecordSpec SampleRecord::spec() const {
  return {.sequence = sequence,
          .device = device,
          .token = token,
          .op = op,
          .call = call,
          .io = io,
          .index = index,
          .dtype = dtype,
          .dims = dims,
          .tensor_bytes = tensor_bytes,
          .part_offset = part_offset,
          .part_bytes = payload.size(),
          .kind = kind,
          .requires_grad = requires_grad,
          .value = value,
          .stack = stack,
          .alias = alias,
          .has_digest = has_digest};
}

SampleRecord WholeTensor(DType dtype, std::vector<int64_t> dims, uint8_t seed) {
  uint64_t bytes = ElementBytes(dtype);
  for (const int64_t dim : dims) bytes *= static_cast<uint64_t>(dim);
  SampleRecord out;
  out.dtype = dtype;
  out.dims = std::move(dims);
  out.tensor_bytes = bytes;
  out.payload.resize(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    out.payload[i] = static_cast<std::byte>(seed + i * 31);
  }
  return out;
}

SampleRecord Statistics(DType dtype, std::vector<int64_t> dims,
                        std::string text) {
  SampleRecord out;
  out.dtype = dtype;
  out.dims = std::move(dims);
  out.kind = RecordKind::kStatistics;
  out.value = std::move(text);
  return out;
}

Digest AddDigest(SampleRecord& record, bool is_sent) {
  Digest out;
  out.summary.count = record.tensor_bytes / ElementBytes(record.dtype) *
                      (IsComplex(record.dtype) ? 2 : 1);
  out.summary.min = -2;
  out.summary.max = 4;
  out.summary.sum = 3;
  out.summary.l1 = 7;
  out.summary.sum_squares = 21;
  out.hash = {0x1111, 0x2222};
  std::vector<std::byte> payload(is_sent ? kDigestSpan : sizeof(out));
  std::memcpy(payload.data(), &out, sizeof(out));
  if (is_sent) {
    payload.insert(payload.end(), record.payload.begin(), record.payload.end());
  }
  record.payload = std::move(payload);
  record.has_digest = true;
  return out;
}

std::vector<std::byte> BuildChunk(std::span<const SampleRecord> records) {
  AlignedBuffer buffer(ChunkBuilder::kBufferBytes);
  ChunkBuilder builder(buffer.span());
  builder.Start("run", 2, 5, 9);
  if (std::any_of(records.begin(), records.end(),
                  [](const auto& record) { return record.has_digest; })) {
    builder.KeepSummariesOnly();
  }
  for (const SampleRecord& record : records) {
    const std::span<std::byte> out = builder.Add(record.spec());
    if (out.data() == nullptr) {
      ADD_FAILURE() << "a record does not fit";
      return {};
    }
    std::copy(record.payload.begin(), record.payload.end(), out.begin());
  }
  const std::span<const std::byte> bytes = builder.Finish(1234);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> SmallChunk() {
  std::vector<SampleRecord> records = {
      WholeTensor(DType::kFloat32, {2, 3}, 1),
      WholeTensor(DType::kInt64, {4}, 2),
      WholeTensor(DType::kBfloat16, {5}, 3),
  };
  records[0].op = "layer.0";
  records[1].op = "layer.1";
  records[2].op = "layer.2";
  for (size_t i = 0; i < records.size(); ++i) records[i].sequence = 10 + i;
  return BuildChunk(records);
}

ChunkHeader HeaderOf(std::span<const std::byte> bytes) {
  ChunkHeader out;
  std::memcpy(&out, bytes.data(), sizeof(out));
  return out;
}

RecordDescriptor RecordOf(std::span<const std::byte> bytes, size_t record) {
  RecordDescriptor out;
  std::memcpy(&out, bytes.data() + RecordAt(record), sizeof(out));
  return out;
}

void PutHeader(std::span<std::byte> bytes, const ChunkHeader& header) {
  std::memcpy(bytes.data(), &header, sizeof(header));
}

void PutRecord(std::span<std::byte> bytes, size_t record,
               const RecordDescriptor& descriptor) {
  std::memcpy(bytes.data() + RecordAt(record), &descriptor, sizeof(descriptor));
}

}  // namespace msitd::chunk
