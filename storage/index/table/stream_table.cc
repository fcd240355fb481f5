// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/stream_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

namespace msitd::storage {

std::string EncodeStreamKey(const StreamKey& stream) {
  std::string key(kStreamKeyBytes, '\0');
  char* end = PutBigEndian(key.data(), static_cast<uint64_t>(stream.run), 8);
  end = PutBigEndian(end, static_cast<uint32_t>(stream.rank), 4);
  PutBigEndian(end, stream.stream_id, 8);
  return key;
}

absl::StatusOr<uint64_t> StreamTable::ChunkCount(const StreamKey& stream) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kStream, EncodeStreamKey(stream)));
  if (!value.has_value()) return 0;
  uint64_t count = 0;
  if (!DecodeChunkCount(*value, count)) return IndexCorrupt("stream");
  return count;
}

absl::StatusOr<bool> StreamTable::HasOtherStream(const StreamKey& stream) {
  const std::string own = EncodeStreamKey(stream);
  const std::string_view prefix = std::string_view(own).substr(0, 12);
  const auto it = db_.Iterate(Table::kStream, rocksdb::ReadOptions());
  // Only one of the first two keys can be that of the stream itself.
  it->Seek(std::string(prefix));
  if (it->Valid() && it->key() == own) it->Next();
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read streams"));
  if (!it->Valid() || !it->key().starts_with(prefix)) return false;
  if (it->key().size() != kStreamKeyBytes) return IndexCorrupt("stream");
  return true;
}

void StreamTable::AppendTo(rocksdb::WriteBatch& batch, const StreamKey& stream,
                           uint64_t chunk_count) const {
  db_.Put(batch, Table::kStream, EncodeStreamKey(stream),
          EncodeChunkCount(chunk_count));
}

void StreamTable::AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  db_.DeleteRange(batch, Table::kStream, BigEndianKey(id),
                  BigEndianKey(id + 1));
}

absl::StatusOr<bool> StreamFilter::Admit(const StreamKey& stream,
                                         uint64_t chunk_sequence) {
  auto it = chunk_counts_.find(stream);
  if (it == chunk_counts_.end()) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t count, table_.ChunkCount(stream));
    it = chunk_counts_.emplace(stream, count).first;
  }
  if (chunk_sequence < it->second) return false;
  it->second = chunk_sequence + 1;
  return true;
}

}  // namespace msitd::storage
