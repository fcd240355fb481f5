// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/shared_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <string>

#include "protos/base/byte_codec.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"

namespace msitd::storage {
namespace {

static_assert(kPartBytes < uint64_t{1} << 32);

constexpr char kSharedTag = 's';
constexpr int kLengthBytes = 4;
// Tag, run, hash and length.
constexpr size_t kSharedKeyBytes = 1 + 8 + 16 + kLengthBytes;
constexpr std::string_view kUnfreedKey = "f";
constexpr std::string_view kLookedAtKey = "n";

std::string KeyOf(const SharedBytes& bytes) {
  std::string key = RunPrefix(kSharedTag, static_cast<uint64_t>(bytes.run)) +
                    BigEndianKey(bytes.hash.high) +
                    BigEndianKey(bytes.hash.low);
  char length[kLengthBytes];
  PutBigEndian(length, bytes.bytes, kLengthBytes);
  return key.append(length, kLengthBytes);
}

}  // namespace

absl::Status SharedTable::Load() {
  const auto it = db_.Iterate(Table::kSegment, rocksdb::ReadOptions());
  it->Seek(std::string(1, kSharedTag));
  while (it->Valid() && it->key()[0] == kSharedTag) {
    if (it->key().size() != kSharedKeyBytes) return IndexCorrupt("segment");
    const uint64_t run = GetBigEndian(it->key().data() + 1, 8);
    Accept(RunId{run});
    it->Seek(RunPrefix(kSharedTag, run + 1));
  }
  return ToStatus(it->status(), "read segments");
}

bool SharedTable::HasEntries(RunId run) {
  if (!has_runs_.load(std::memory_order_acquire)) return false;
  const MutexLock lock(mu_);
  return runs_.contains(static_cast<uint64_t>(run));
}

void SharedTable::Accept(RunId run) {
  const MutexLock lock(mu_);
  runs_.insert(static_cast<uint64_t>(run));
  has_runs_.store(true, std::memory_order_release);
}

void SharedTable::AcceptRemoval(RunId run) {
  const MutexLock lock(mu_);
  runs_.erase(static_cast<uint64_t>(run));
}

absl::StatusOr<std::optional<BytePlace>> SharedTable::Find(
    const SharedBytes& bytes) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kSegment, KeyOf(bytes)));
  std::optional<BytePlace> place;
  if (value.has_value() && !DecodeBytePlace(*value, place.emplace())) {
    return IndexCorrupt("segment");
  }
  return place;
}

absl::StatusOr<std::vector<ByteRange>> SharedTable::Unfreed() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kSegment, kUnfreedKey));
  std::vector<ByteRange> ranges;
  if (value.has_value() && !DecodeByteRanges(*value, ranges)) {
    return IndexCorrupt("segment");
  }
  return ranges;
}

absl::StatusOr<uint64_t> SharedTable::LookedAtEnd() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kSegment, kLookedAtKey));
  if (!value.has_value()) return 1;
  if (value->size() != 8) return IndexCorrupt("segment");
  return GetBigEndian(value->data(), 8);
}

void SharedTable::AppendTo(rocksdb::WriteBatch& batch, const SharedBytes& bytes,
                           const BytePlace& place) const {
  db_.Put(batch, Table::kSegment, KeyOf(bytes), EncodeBytePlace(place));
}

void SharedTable::AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  db_.DeleteRange(batch, Table::kSegment, RunPrefix(kSharedTag, id),
                  RunPrefix(kSharedTag, id + 1));
}

void SharedTable::AppendUnfreedTo(rocksdb::WriteBatch& batch,
                                  const std::vector<ByteRange>& ranges) const {
  db_.Put(batch, Table::kSegment, kUnfreedKey, EncodeByteRanges(ranges));
}

absl::Status SharedTable::ForgetUnfreed() {
  rocksdb::WriteBatch batch;
  db_.Delete(batch, Table::kSegment, kUnfreedKey);
  return db_.WriteLogged(batch);
}

void SharedTable::AppendLookedAtTo(rocksdb::WriteBatch& batch,
                                   uint64_t segment_end) const {
  db_.Put(batch, Table::kSegment, kLookedAtKey, BigEndianKey(segment_end));
}

}  // namespace msitd::storage
