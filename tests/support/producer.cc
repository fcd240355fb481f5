// SPDX-License-Identifier: Apache-2.0
#include "tests/support/producer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "protos/base/check.h"

namespace msitd::testing {
namespace {

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Producer::Producer(std::string run, int32_t rank, uint64_t stream_id)
    : run_(std::move(run)),
      rank_(rank),
      stream_id_(stream_id),
      memory_(chunk::ChunkBuilder::kBufferBytes),
      builder_(memory_.span()) {}

std::string Producer::Chunk(uint64_t sequence,
                            const std::vector<ProducedTensor>& tensors) {
  builder_.Start(run_, rank_, stream_id_, sequence);
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const auto& tensor) { return tensor.digest; })) {
    builder_.KeepSummariesOnly();
  }
  for (const ProducedTensor& tensor : tensors) {
    const std::array<int64_t, 1> dims = {
        static_cast<int64_t>(tensor.values.size())};
    chunk::RecordSpec spec;
    spec.sequence = sequence;
    spec.device = tensor.device;
    spec.token = tensor.token;
    spec.op = tensor.op;
    spec.io = tensor.io;
    spec.index = "0";
    spec.dtype = DType::kFloat32;
    spec.dims = dims;
    spec.tensor_bytes = tensor.values.size() * sizeof(float);
    spec.part_bytes = spec.tensor_bytes;
    spec.has_digest = tensor.digest.has_value();
    if (spec.has_digest) {
      spec.part_bytes = tensor.is_sent ? chunk::kDigestSpan + spec.tensor_bytes
                                       : sizeof(Digest);
    }
    std::span<std::byte> payload = builder_.Add(spec);
    MSITD_CHECK(payload.data() != nullptr);
    if (spec.has_digest) {
      std::memcpy(payload.data(), &*tensor.digest, sizeof(Digest));
      payload =
          payload.subspan(std::min<size_t>(payload.size(), chunk::kDigestSpan));
      if (!tensor.is_sent) continue;
    }
    if (!tensor.values.empty()) {
      std::memcpy(payload.data(), tensor.values.data(), payload.size());
    }
  }
  return TextOf(builder_.Finish(1));
}

std::string Producer::Chunk(uint64_t sequence) {
  return Chunk(sequence, {{.op = "op",
                           .token = static_cast<int64_t>(sequence),
                           .values = {static_cast<float>(sequence)}}});
}

std::string Producer::Part(uint64_t sequence, const std::string& op,
                           uint64_t tensor_bytes, uint64_t part_index,
                           char fill) {
  builder_.Start(run_, rank_, stream_id_, sequence);
  const std::array<int64_t, 1> dims = {static_cast<int64_t>(tensor_bytes)};
  chunk::RecordSpec spec;
  spec.device = "cpu:0";
  spec.op = op;
  spec.io = Io::kOutput;
  spec.index = "0";
  spec.dtype = DType::kUint8;
  spec.dims = dims;
  spec.tensor_bytes = tensor_bytes;
  spec.part_offset = part_index * kPartBytes;
  spec.part_bytes = std::min(kPartBytes, tensor_bytes - spec.part_offset);
  const std::span<std::byte> payload = builder_.Add(spec);
  MSITD_CHECK(payload.data() != nullptr);
  std::memset(payload.data(), fill, payload.size());
  return TextOf(builder_.Finish(1));
}

TensorKey Producer::KeyOf(const ProducedTensor& tensor) const {
  return {run_,      rank_, tensor.device, tensor.token,
          tensor.op, 0,     tensor.io,     "0"};
}

AlignedBuffer Aligned(const std::string& bytes) {
  AlignedBuffer out(bytes.size());
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace msitd::testing
