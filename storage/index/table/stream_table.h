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

// Identifies a stream of chunks. Producers choose stream ids, so an id is
// unique only within its run and rank.
struct StreamKey {
  RunId run{};
  int32_t rank = 0;
  uint64_t stream_id = 0;

  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

inline constexpr size_t kStreamKeyBytes = 20;
std::string EncodeStreamKey(const StreamKey& stream);

// Returns the stream that a chunk of `run` belongs to.
inline StreamKey StreamOf(const chunk::Chunk& chunk, RunId run) {
  return {run, chunk.header().rank, chunk.header().stream_id};
}

// Number of durable chunks of each stream. Thread-safe.
class StreamTable {
 public:
  explicit StreamTable(IndexDb& db) : db_(db) {}

  // Returns the number of durable chunks of the stream; 0 for an unknown
  // stream.
  absl::StatusOr<uint64_t> ChunkCount(const StreamKey& stream);
  // True if the table has another stream of the same rank.
  absl::StatusOr<bool> HasOtherStream(const StreamKey& stream);

  void AppendTo(rocksdb::WriteBatch& batch, const StreamKey& stream,
                uint64_t chunk_count) const;
  // Removes the streams of a run that accepts no more chunks.
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  IndexDb& db_;
};

// Distinguishes new chunks from those that are already stored or were admitted
// before. Must be used by one thread at a time.
class StreamFilter {
 public:
  explicit StreamFilter(StreamTable& table) : table_(table) {}

  // Returns false if the chunk was received before; counts it otherwise.
  absl::StatusOr<bool> Admit(const StreamKey& stream, uint64_t chunk_sequence);

 private:
  StreamTable& table_;
  std::map<StreamKey, uint64_t> chunk_counts_;
};

}  // namespace msitd::storage
