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
#include "protos/chunk/chunk_builder.h"
#include "protos/chunk/chunk_format.h"

// Chunks for tests, and access to their raw bytes for corrupting them.
namespace msitd::chunk {

// A record that owns the data to which a RecordSpec refers.
struct SampleRecord {
  uint64_t sequence = 0;
  std::string device = "cpu:0";
  int64_t token = 0;
  std::string op = "op";
  int32_t call = 0;
  Io io = Io::kOutput;
  std::string index = "0";
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  uint64_t tensor_bytes = 0;
  uint64_t part_offset = 0;
  std::vector<std::byte> payload;
  RecordKind kind = RecordKind::kTensor;
  std::optional<bool> requires_grad = {};
  std::optional<std::string> value = {};
  std::string stack = "";
  std::optional<AliasSpec> alias = {};
  bool has_digest = false;

  RecordSpec spec() const;
};

// Returns a record of a whole tensor whose bytes are a fixed function of
// `seed`.
SampleRecord WholeTensor(DType dtype, std::vector<int64_t> dims, uint8_t seed);

// Returns a record of kind statistics.
SampleRecord Statistics(DType dtype, std::vector<int64_t> dims,
                        std::string text);

// Adds a digest that is possible for the tensor to the payload of a record of a
// whole tensor, and returns the digest. If `is_sent` is true, the bytes follow
// the digest.
Digest AddDigest(SampleRecord& record, bool is_sent);

// Returns the bytes of a finished chunk of run "run", rank 2, stream 5,
// sequence 9. It keeps only summaries if a record has a digest. The test fails
// if a record does not fit.
std::vector<std::byte> BuildChunk(std::span<const SampleRecord> records);

// Returns a chunk of three small records.
std::vector<std::byte> SmallChunk();

// Read and modify the raw header and descriptors.
ChunkHeader HeaderOf(std::span<const std::byte> bytes);
RecordDescriptor RecordOf(std::span<const std::byte> bytes, size_t record);
void PutHeader(std::span<std::byte> bytes, const ChunkHeader& header);
void PutRecord(std::span<std::byte> bytes, size_t record,
               const RecordDescriptor& descriptor);

}  // namespace msitd::chunk
