// SPDX-License-Identifier: Apache-2.0
#include "storage/index/segment_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <map>
#include <optional>
#include <string>

#include "protos/status/status.h"
#include "storage/index/byte_codec.h"

namespace msitd::storage {
namespace {

constexpr char kLiveTag = 'l';
constexpr char kDeadTag = 'd';
constexpr size_t kLiveKeyBytes = 17;
constexpr size_t kDeadKeyBytes = 9;

std::string LiveKey(SegmentId segment, RunId run) {
  return kLiveTag + BigEndianKey(static_cast<uint64_t>(segment)) +
         BigEndianKey(static_cast<uint64_t>(run));
}

std::string DeadKey(SegmentId segment) {
  return kDeadTag + BigEndianKey(static_cast<uint64_t>(segment));
}

}  // namespace

absl::Status SegmentTable::AppendLiveTo(rocksdb::WriteBatch& batch,
                                        SegmentId segment, RunId run,
                                        uint64_t added_bytes) {
  const std::string key = LiveKey(segment, run);
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> before,
                         db_.Get(Table::kSegment, key));
  uint64_t bytes = added_bytes;
  if (before.has_value()) {
    ByteReader reader(*before);
    bytes += reader.GetVarint();
    if (!reader.done()) return IndexCorrupt("segment");
  }
  std::string value;
  ByteWriter(value).PutVarint(bytes);
  db_.Put(batch, Table::kSegment, key, value);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SegmentId>> SegmentTable::AppendRemovalTo(
    rocksdb::WriteBatch& batch, RunId run) {
  struct Users {
    bool run = false;
    bool others = false;
  };
  std::map<uint64_t, Users> segments;
  const std::string begin(1, kLiveTag);
  const auto it = db_.Iterate(Table::kSegment, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    if (it->key().size() != kLiveKeyBytes) return IndexCorrupt("segment");
    const char* key = it->key().data();
    Users& users = segments[GetBigEndian(key + 1, 8)];
    if (RunId{GetBigEndian(key + 9, 8)} == run) {
      users.run = true;
      db_.Delete(batch, Table::kSegment, it->key().ToStringView());
    } else {
      users.others = true;
    }
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read segments"));
  std::vector<SegmentId> dead;
  for (const auto& [number, users] : segments) {
    if (!users.run || users.others) continue;
    dead.push_back(SegmentId{number});
    db_.Put(batch, Table::kSegment, DeadKey(dead.back()), "");
  }
  return dead;
}

absl::StatusOr<std::vector<SegmentId>> SegmentTable::Dead() {
  std::vector<SegmentId> dead;
  const std::string begin(1, kDeadTag);
  const auto it = db_.Iterate(Table::kSegment, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    if (it->key().size() != kDeadKeyBytes) return IndexCorrupt("segment");
    dead.push_back(SegmentId{GetBigEndian(it->key().data() + 1, 8)});
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read segments"));
  return dead;
}

absl::Status SegmentTable::Bury(SegmentId segment) {
  rocksdb::WriteBatch batch;
  db_.Delete(batch, Table::kSegment, DeadKey(segment));
  return db_.WriteLogged(batch);
}

}  // namespace msitd::storage
