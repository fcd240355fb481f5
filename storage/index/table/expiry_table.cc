// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/expiry_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <limits>
#include <string>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"

namespace msitd::storage {
namespace {

constexpr char kExpiryTag = 'x';
constexpr size_t kExpiryKeyBytes = 17;

}  // namespace

absl::Status ExpiryTable::Load() {
  const std::string begin(1, kExpiryTag);
  const auto it = db_.Iterate(Table::kSegment, rocksdb::ReadOptions());
  for (it->Seek(begin); it->Valid() && it->key().starts_with(begin);
       it->Next()) {
    ExpiryMark mark;
    if (it->key().size() != kExpiryKeyBytes ||
        !DecodeExpiryMark(it->value().ToStringView(), mark)) {
      return IndexCorrupt("segment");
    }
    const char* key = it->key().data();
    Accept(SegmentId{GetBigEndian(key + 9, 8)}, RunId{GetBigEndian(key + 1, 8)},
           mark);
  }
  return ToStatus(it->status(), "read segments");
}

ExpiryMark ExpiryTable::Mark(SegmentId segment, RunId run) {
  const MutexLock lock(mu_);
  const auto it =
      marks_.find({static_cast<uint64_t>(run), static_cast<uint64_t>(segment)});
  return it == marks_.end() ? ExpiryMark() : it->second;
}

bool ExpiryTable::IsExpired(SegmentId segment, RunId run, uint64_t offset) {
  return has_marks_.load(std::memory_order_acquire) &&
         offset < Mark(segment, run).end;
}

uint64_t ExpiryTable::ExpiredBytes(RunId run) {
  const MutexLock lock(mu_);
  const auto it = expired_bytes_.find(static_cast<uint64_t>(run));
  return it == expired_bytes_.end() ? 0 : it->second;
}

std::optional<ExpiryTable::UnfreedSpace> ExpiryTable::Unfreed() {
  const MutexLock lock(mu_);
  for (const auto& [key, mark] : marks_) {
    if (mark.freed_end < mark.end) {
      return UnfreedSpace{SegmentId{key.second}, RunId{key.first}};
    }
  }
  return std::nullopt;
}

std::vector<SegmentId> ExpiryTable::Drained() {
  const MutexLock lock(mu_);
  std::vector<SegmentId> out;
  for (const auto& [key, mark] : marks_) {
    if (mark.end == ExpiryMark::kAll) out.push_back(SegmentId{key.second});
  }
  return out;
}

void ExpiryTable::AppendTo(rocksdb::WriteBatch& batch, SegmentId segment,
                           RunId run, const ExpiryMark& mark) const {
  db_.Put(batch, Table::kSegment,
          RunPrefix(kExpiryTag, static_cast<uint64_t>(run)) +
              BigEndianKey(static_cast<uint64_t>(segment)),
          EncodeExpiryMark(mark));
}

void ExpiryTable::AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  db_.DeleteRange(batch, Table::kSegment, RunPrefix(kExpiryTag, id),
                  RunPrefix(kExpiryTag, id + 1));
}

void ExpiryTable::Accept(SegmentId segment, RunId run, const ExpiryMark& mark) {
  const MutexLock lock(mu_);
  const auto id = static_cast<uint64_t>(run);
  ExpiryMark& before = marks_[{id, static_cast<uint64_t>(segment)}];
  expired_bytes_[id] += mark.bytes - before.bytes;
  before = mark;
  has_marks_.store(true, std::memory_order_release);
}

void ExpiryTable::AcceptRemoval(RunId run) {
  const MutexLock lock(mu_);
  const auto id = static_cast<uint64_t>(run);
  marks_.erase(marks_.lower_bound({id, 0}),
               marks_.upper_bound({id, std::numeric_limits<uint64_t>::max()}));
  expired_bytes_.erase(id);
}

}  // namespace msitd::storage
