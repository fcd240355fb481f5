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
  // The key of its original, if it is an alias: `bytes` are not sent then.
  std::optional<TensorKey> original = {};
  // What its producer makes of the part, if it does. Then the bytes are not
  // kept, and are sent only if `is_sent`.
  std::optional<Digest> digest = {};
  bool is_sent = true;
};

// Returns a digest that a part of `bytes` bytes of uint8 may have.
Digest MakeDigest(uint64_t bytes, uint64_t hash);

// Returns an alias of `original` with another op.
TestTensor MakeAlias(const TestTensor& original, std::string op);

// Returns a value; a number is 0.
TestTensor MakeValue(std::string run, int64_t token, RecordKind kind,
                     std::string index, std::string value);

// Returns statistics of a float32 tensor of shape [2, 3]; `text` is a JSON
// object.
TestTensor MakeStatistics(std::string run, int64_t token, std::string op,
                          std::string text);

// Makes a one-dimensional tensor of `byte_count` uint8 elements, which follow
// from `seed`.
TestTensor MakeTensor(std::string run, int64_t token, std::string op,
                      uint64_t byte_count, uint32_t seed = 1);

// Chunks as the store gets them: laid out by a producer, validated, with hashes
// and summaries. Owns their memory.
class TestChunks {
 public:
  TestChunks() = default;
  // One chunk.
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
