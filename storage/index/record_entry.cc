// SPDX-License-Identifier: Apache-2.0
#include "storage/index/record_entry.h"

#include <utility>

#include "protos/status/status.h"
#include "storage/index/db/index_key.h"

namespace msitd::storage {

absl::StatusOr<std::optional<IndexValue>> FindOriginalOf(
    ChunkIndex& index, RunId run, const chunk::Chunk& chunk,
    const chunk::RecordDescriptor& record, const chunk::RecordExtra& extra) {
  chunk::RecordDescriptor original = record;
  original.op = extra.alias_op;
  original.index = extra.alias_index;
  original.call = extra.alias_call;
  original.io = extra.alias_io;
  return FindEntryOf(index, run, chunk, original);
}

absl::StatusOr<std::optional<IndexValue>> FindEntryOf(
    ChunkIndex& index, RunId run, const chunk::Chunk& chunk,
    const chunk::RecordDescriptor& record) {
  std::optional<IndexValue> out;
  IndexKey key;
  const std::pair<chunk::TextRef, uint32_t*> names[] = {
      {record.device, &key.device},
      {record.op, &key.op},
      {record.index, &key.index}};
  for (const auto& [text, id] : names) {
    MSITD_ASSIGN_OR_RETURN(const auto found,
                           index.names().Find(chunk.Text(text)));
    if (!found.has_value()) return out;
    *id = *found;
  }
  key.run = static_cast<uint32_t>(run);
  key.rank = static_cast<uint32_t>(chunk.header().rank);
  key.token = static_cast<uint64_t>(record.token);
  key.call = static_cast<uint32_t>(record.call);
  key.io = static_cast<Io>(record.io);
  key.part = static_cast<uint32_t>(record.part_offset / kPartBytes);
  MSITD_ASSIGN_OR_RETURN(
      const auto value,
      index.db().Get(Table::kTensor, View(EncodeIndexKey(key))));
  if (!value.has_value()) return out;
  out.emplace();
  if (!DecodeIndexValue(*value, *out)) return IndexCorrupt("tensor");
  return out;
}

}  // namespace msitd::storage
