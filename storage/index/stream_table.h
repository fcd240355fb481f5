// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "storage/index/index_db.h"
#include "storage/index/index_value.h"

namespace msitd::storage {

// How many chunks of each stream are durable. Thread-safe.
class StreamTable {
 public:
  explicit StreamTable(IndexDb& db) : db_(db) {}

  // Chunks of the stream that are durable; 0 for an unknown stream.
  absl::StatusOr<uint64_t> ChunkCount(uint64_t stream_id);

  void AppendTo(rocksdb::WriteBatch& batch, uint64_t stream_id,
                const StreamState& stream) const;
  // Forgets the streams of a run that takes no more chunks.
  absl::Status AppendRemovalTo(rocksdb::WriteBatch& batch, uint64_t run_id);

 private:
  IndexDb& db_;
};

// Tells chunks that are in the store already from new ones, while more of
// them are on their way. Single-sequence.
class StreamFilter {
 public:
  explicit StreamFilter(StreamTable& table) : table_(table) {}

  // False if the chunk came before; counts it otherwise.
  absl::StatusOr<bool> Admit(uint64_t stream_id, uint64_t chunk_sequence);

 private:
  StreamTable& table_;
  std::unordered_map<uint64_t, uint64_t> chunk_counts_;
};

}  // namespace msitd::storage
