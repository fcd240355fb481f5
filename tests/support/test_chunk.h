// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::testing {

// A tensor with its bytes. `part` is the part of it that a record carries.
struct TestTensor {
  TensorKey key;
  DType dtype = DType::kUint8;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
  uint64_t sequence = 0;
  uint64_t part = 0;
  std::string placement = "";
  RecordKind kind = RecordKind::kTensor;
  std::optional<bool> requires_grad = {};
  std::optional<std::string> value = {};
  std::string stack = "";
  // The key of its original, if it is an alias: `bytes` are then not sent.
  std::optional<TensorKey> original = {};
  // The digest that the producer computes for the part, if any. The bytes are
  // then not stored, and are sent only if `is_sent`.
  std::optional<Digest> digest = {};
  bool is_sent = true;
};

// Returns a possible digest of a part with `bytes` bytes of uint8.
Digest MakeDigest(uint64_t bytes, uint64_t hash);

// Returns an alias of `original` with another op.
TestTensor MakeAlias(const TestTensor& original, std::string op);

// Returns a value; a number is always 0.
TestTensor MakeValue(std::string run, int64_t token, RecordKind kind,
                     std::string index, std::string value);

// Returns statistics of a float32 tensor of shape [2, 3]; `text` is a JSON
// object.
TestTensor MakeStatistics(std::string run, int64_t token, std::string op,
                          std::string text);

// Returns a one-dimensional tensor of `byte_count` uint8 elements, which are
// derived from `seed`.
TestTensor MakeTensor(std::string run, int64_t token, std::string op,
                      uint64_t byte_count, uint32_t seed = 1);

// Chunks as the store receives them: built by a producer, validated, with
// hashes and summaries. Owns their memory.
class TestChunks {
 public:
  TestChunks() = default;
  // Creates one chunk.
  TestChunks(uint64_t stream_id, uint64_t chunk_sequence,
             const std::vector<TestTensor>& records) {
    Add(stream_id, chunk_sequence, records);
  }

  // Adds a chunk. Its run and rank are those of the first record.
  void Add(uint64_t stream_id, uint64_t chunk_sequence,
           const std::vector<TestTensor>& records);

  // The argument of ChunkLog::Append.
  std::span<chunk::Chunk> span() { return chunks_; }

 private:
  std::vector<AlignedBuffer> memory_;
  std::vector<chunk::Chunk> chunks_;
};

}  // namespace msitd::testing
