// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/segment_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <map>
#include <optional>
#include <string>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

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
  MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> before,
                         LiveBytes(segment, run));
  std::string value;
  ByteWriter(value).PutVarint(before.value_or(0) + added_bytes);
  db_.Put(batch, Table::kSegment, LiveKey(segment, run), value);
  return absl::OkStatus();
}

absl::Status SegmentTable::AddUser(SegmentId segment, RunId run) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes,
                         LiveBytes(segment, run));
  if (bytes.has_value()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  MSITD_RETURN_IF_ERROR(AppendLiveTo(batch, segment, run, 0));
  return db_.WriteUnlogged(batch);
}

absl::StatusOr<std::optional<uint64_t>> SegmentTable::LiveBytes(
    SegmentId segment, RunId run) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kSegment, LiveKey(segment, run)));
  if (!value.has_value()) return std::optional<uint64_t>();
  ByteReader reader(*value);
  const uint64_t bytes = reader.GetVarint();
  if (!reader.done()) return IndexCorrupt("segment");
  return std::optional<uint64_t>(bytes);
}

absl::Status SegmentTable::ForEachUse(
    absl::FunctionRef<void(SegmentId, RunId, uint64_t)> use) {
  const std::string begin(1, kLiveTag);
  const auto it = db_.Iterate(Table::kSegment, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    ByteReader reader(it->value().ToStringView());
    const uint64_t bytes = reader.GetVarint();
    if (it->key().size() != kLiveKeyBytes || !reader.done()) {
      return IndexCorrupt("segment");
    }
    const char* key = it->key().data();
    use(SegmentId{GetBigEndian(key + 1, 8)}, RunId{GetBigEndian(key + 9, 8)},
        bytes);
  }
  return ToStatus(it->status(), "read segments");
}

absl::StatusOr<std::vector<RunId>> SegmentTable::RunsIn(SegmentId segment) {
  std::vector<RunId> runs;
  const std::string begin =
      kLiveTag + BigEndianKey(static_cast<uint64_t>(segment));
  const auto it = db_.Iterate(Table::kSegment, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    if (it->key().size() != kLiveKeyBytes) return IndexCorrupt("segment");
    runs.push_back(RunId{GetBigEndian(it->key().data() + 9, 8)});
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read segments"));
  return runs;
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

absl::Status SegmentTable::ForgetDead(SegmentId segment) {
  rocksdb::WriteBatch batch;
  db_.Delete(batch, Table::kSegment, DeadKey(segment));
  return db_.WriteLogged(batch);
}

}  // namespace msitd::storage
