// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/compare/run_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "protos/chunk/chunk.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/compute/digest.h"

namespace msitd::compare {

RecordedTensor Floats(std::string_view op, const std::vector<float>& values) {
  RecordedTensor out;
  out.op = op;
  out.bytes = BytesOf(values);
  out.shape = {static_cast<int64_t>(values.size())};
  return out;
}

RecordedTensor Bfloats(std::string_view op, const std::vector<float>& values) {
  std::vector<uint16_t> halves;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    halves.push_back(static_cast<uint16_t>(bits >> 16));
  }
  RecordedTensor out = Floats(op, values);
  out.dtype = DType::kBfloat16;
  out.bytes = BytesOf(halves);
  return out;
}

RunRecorder::RunRecorder(storage::Store& store, std::string run,
                         std::map<std::string, std::string> labels)
    : store_(store),
      run_(std::move(run)),
      stream_id_(std::hash<std::string>()(run_) | 1),
      buffer_(chunk::ChunkBuilder::kBufferBytes) {
  EXPECT_TRUE(
      store_.runs()
          .CreateRun(
              {.name = run_, .world_size = 0, .labels = std::move(labels)})
          .ok());
}

void RunRecorder::Record(const RecordedTensor& tensor) {
  uint64_t& next = next_sequence_[tensor.rank];
  const uint64_t sequence = tensor.sequence < 0 ? next : tensor.sequence;
  next = std::max(next, sequence + 1);
  chunk::ChunkBuilder builder(buffer_.span());
  uint64_t offset = 0;
  do {
    const uint64_t bytes =
        std::min<uint64_t>(kPartBytes, tensor.bytes.size() - offset);
    builder.Start(run_, tensor.rank, stream_id_, chunk_count_++);
    chunk::RecordSpec spec;
    spec.sequence = sequence;
    spec.device = tensor.device;
    spec.token = tensor.token;
    spec.op = tensor.op;
    spec.call = tensor.call;
    spec.io = tensor.io;
    spec.index = tensor.index;
    spec.dtype = tensor.dtype;
    spec.dims = tensor.shape;
    spec.tensor_bytes = tensor.bytes.size();
    spec.part_offset = offset;
    spec.part_bytes = bytes;
    spec.placement = tensor.placement;
    spec.kind = tensor.kind;
    spec.value = tensor.value;
    if (tensor.claim.has_value()) {
      builder.KeepSummariesOnly();
      spec.has_digest = true;
      spec.part_bytes = sizeof(Digest);
    }
    const auto room = builder.Add(spec);
    ASSERT_EQ(room.size(), spec.part_bytes);
    if (tensor.claim.has_value()) {
      std::memcpy(room.data(), &*tensor.claim, sizeof(Digest));
    } else if (bytes > 0) {
      std::memcpy(room.data(), tensor.bytes.data() + offset, bytes);
    }
    auto chunk = chunk::Chunk::FromProducer(builder.Finish(1));
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    if (!tensor.claim) chunk->header().flags = tensor.chunk_flags;
    for (chunk::RecordDescriptor& record : chunk->records()) {
      if (chunk::IsClaimed(record)) continue;
      const Digest digest =
          compute::DigestPart(chunk->PayloadOf(record), tensor.dtype);
      record.summary = digest.summary;
      record.hash =
          IsTextOnly(tensor.kind)
              ? chunk::HashBytes(std::as_bytes(std::span(*tensor.value)))
              : digest.hash;
    }
    const absl::Status status = store_.log().Append({&*chunk, 1});
    ASSERT_TRUE(status.ok()) << status;
    offset += bytes;
  } while (offset < tensor.bytes.size());
}

TensorKey RunRecorder::KeyOf(const RecordedTensor& tensor) const {
  return {run_,      tensor.rank, tensor.device, tensor.token,
          tensor.op, tensor.call, tensor.io,     tensor.index};
}

}  // namespace msitd::compare
