// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/log_position.h"

#include <rocksdb/write_batch.h>

#include <string>
#include <string_view>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kPositionKey = "log_position";
constexpr std::string_view kNewestSegmentKey = "newest_segment";
constexpr uint8_t kNewestSegmentVersion = 1;

}  // namespace

void AppendPositionTo(rocksdb::WriteBatch& batch, const IndexDb& db,
                      const LogPosition& position) {
  db.Put(batch, Table::kMeta, kPositionKey, EncodePosition(position));
}

absl::StatusOr<LogPosition> LoadPosition(IndexDb& db) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db.Get(Table::kMeta, kPositionKey));
  LogPosition position;
  if (value.has_value() && !DecodePosition(*value, position)) {
    return IndexCorrupt("default");
  }
  return position;
}

std::string EncodeNewestSegment(const NewestSegment& newest) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kNewestSegmentVersion);
  writer.PutVarint(newest.segment_id);
  writer.PutByte(newest.is_indexed ? 1 : 0);
  return out;
}

bool DecodeNewestSegment(std::string_view bytes, NewestSegment& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kNewestSegmentVersion) return false;
  out.segment_id = reader.GetVarint();
  out.is_indexed = reader.GetByte() != 0;
  return reader.done();
}

absl::StatusOr<NewestSegment> LoadNewestSegment(IndexDb& db) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db.Get(Table::kMeta, kNewestSegmentKey));
  NewestSegment newest;
  if (value.has_value() && !DecodeNewestSegment(*value, newest)) {
    return IndexCorrupt("default");
  }
  return newest;
}

absl::Status StoreNewestSegment(IndexDb& db, const NewestSegment& newest) {
  rocksdb::WriteBatch batch;
  db.Put(batch, Table::kMeta, kNewestSegmentKey, EncodeNewestSegment(newest));
  return db.WriteDurable(batch);
}

}  // namespace msitd::storage
