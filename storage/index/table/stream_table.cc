// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/stream_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <limits>
#include <optional>

#include "protos/base/byte_codec.h"
#include "protos/base/stream_id.h"
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

absl::StatusOr<bool> StreamTable::HasOtherProcess(const StreamKey& stream) {
  const std::string first =
      EncodeStreamKey({stream.run, stream.rank, MakeStreamId(0, 0)});
  const std::string_view prefix = std::string_view(first).substr(0, 12);
  const uint32_t process = ProcessOf(stream.stream_id);
  const auto it = db_.Iterate(Table::kStream, rocksdb::ReadOptions());
  const auto is_other = [&]() -> absl::StatusOr<bool> {
    MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read streams"));
    if (!it->Valid() || !it->key().starts_with(prefix)) return false;
    if (it->key().size() != kStreamKeyBytes) return IndexCorrupt("stream");
    return ProcessOf(GetBigEndian(it->key().data() + prefix.size(), 8)) !=
           process;
  };
  it->Seek(first);
  MSITD_ASSIGN_OR_RETURN(const bool is_before, is_other());
  if (is_before || process == std::numeric_limits<uint32_t>::max()) {
    return is_before;
  }
  it->Seek(
      EncodeStreamKey({stream.run, stream.rank, MakeStreamId(process + 1, 0)}));
  return is_other();
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
