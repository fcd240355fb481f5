// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::testing {

// One tensor of float32 values, or one part of a large tensor of bytes.
struct ProducedTensor {
  std::string op = "op";
  int64_t token = 0;
  std::vector<float> values;
  std::string device = "cpu:0";
  Io io = Io::kOutput;
  // The digest that the producer sends for the values, if any. The values are
  // then not stored, and are sent only if `is_sent`.
  std::optional<Digest> digest = {};
  bool is_sent = true;
};

// Builds chunks as a producer does. The results are the bytes sent over the
// wire, not validated. Thread-compatible.
class Producer {
 public:
  Producer(std::string run, int32_t rank, uint64_t stream_id);

  const std::string& run() const { return run_; }
  int32_t rank() const { return rank_; }
  uint64_t stream_id() const { return stream_id_; }

  // Returns the chunk with this sequence number.
  std::string Chunk(uint64_t sequence,
                    const std::vector<ProducedTensor>& tensors);

  // Returns such a chunk with one tensor, whose only value is `sequence`.
  std::string Chunk(uint64_t sequence);

  // Returns a chunk with one part of a uint8 tensor of `tensor_bytes` bytes,
  // all `fill`.
  std::string Part(uint64_t sequence, const std::string& op,
                   uint64_t tensor_bytes, uint64_t part_index, char fill);

  // Returns the key of a produced tensor.
  TensorKey KeyOf(const ProducedTensor& tensor) const;

 private:
  const std::string run_;
  const int32_t rank_;
  const uint64_t stream_id_;
  AlignedBuffer memory_;
  chunk::ChunkBuilder builder_;
};

// Returns a copy of `bytes` that begins at a multiple of kChunkAlignment.
AlignedBuffer Aligned(const std::string& bytes);

// Returns `chunk` with the number at `offset` replaced.
template <typename T>
std::string Patched(std::string chunk, size_t offset, T value) {
  std::memcpy(chunk.data() + offset, &value, sizeof(value));
  return chunk;
}

}  // namespace msitd::testing
