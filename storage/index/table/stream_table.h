// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "protos/chunk/chunk.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {

// Identifies a stream of chunks. Producers choose stream ids, so an id means
// something only together with its run and rank.
struct StreamKey {
  RunId run{};
  int32_t rank = 0;
  uint64_t stream_id = 0;

  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

inline constexpr size_t kStreamKeyBytes = 20;
std::string EncodeStreamKey(const StreamKey& stream);

// The stream that a chunk of `run` belongs to.
inline StreamKey StreamOf(const chunk::Chunk& chunk, RunId run) {
  return {run, chunk.header().rank, chunk.header().stream_id};
}

// How many chunks of each stream are durable. Thread-safe.
class StreamTable {
 public:
  explicit StreamTable(IndexDb& db) : db_(db) {}

  // Returns how many chunks of the stream are durable; 0 for an unknown stream.
  absl::StatusOr<uint64_t> ChunkCount(const StreamKey& stream);
  // True if the table has another stream of the same rank.
  absl::StatusOr<bool> HasOtherStream(const StreamKey& stream);

  void AppendTo(rocksdb::WriteBatch& batch, const StreamKey& stream,
                uint64_t chunk_count) const;
  // Forgets the streams of a run that takes no more chunks.
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  IndexDb& db_;
};

// Tells chunks that are in the store already, or were admitted before, from new
// ones. Single-sequence.
class StreamFilter {
 public:
  explicit StreamFilter(StreamTable& table) : table_(table) {}

  // Returns false if the chunk came before; counts it otherwise.
  absl::StatusOr<bool> Admit(const StreamKey& stream, uint64_t chunk_sequence);

 private:
  StreamTable& table_;
  std::map<StreamKey, uint64_t> chunk_counts_;
};

}  // namespace msitd::storage
