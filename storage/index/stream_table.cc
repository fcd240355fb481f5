// SPDX-License-Identifier: Apache-2.0
#include "storage/index/stream_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>
#include <string>

#include "protos/status/status.h"
#include "storage/index/byte_codec.h"

namespace msitd::storage {

absl::StatusOr<uint64_t> StreamTable::ChunkCount(uint64_t stream_id) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kStream, BigEndianKey(stream_id)));
  if (!value.has_value()) return 0;
  StreamState stream;
  if (!DecodeStream(*value, stream)) return IndexCorrupt("stream");
  return stream.chunk_count;
}

void StreamTable::AppendTo(rocksdb::WriteBatch& batch, uint64_t stream_id,
                           const StreamState& stream) const {
  db_.Put(batch, Table::kStream, BigEndianKey(stream_id), EncodeStream(stream));
}

absl::Status StreamTable::AppendRemovalTo(rocksdb::WriteBatch& batch,
                                          uint64_t run_id) {
  const auto it = db_.Iterate(Table::kStream, rocksdb::ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    StreamState stream;
    if (!DecodeStream(it->value().ToStringView(), stream)) {
      return IndexCorrupt("stream");
    }
    if (stream.run_id == run_id) {
      db_.Delete(batch, Table::kStream, it->key().ToStringView());
    }
  }
  return ToStatus(it->status(), "read streams");
}

absl::StatusOr<bool> StreamFilter::Admit(uint64_t stream_id,
                                         uint64_t chunk_sequence) {
  auto it = chunk_counts_.find(stream_id);
  if (it == chunk_counts_.end()) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t count, table_.ChunkCount(stream_id));
    it = chunk_counts_.emplace(stream_id, count).first;
  }
  if (chunk_sequence < it->second) return false;
  it->second = chunk_sequence + 1;
  return true;
}

}  // namespace msitd::storage
