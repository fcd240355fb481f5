// SPDX-License-Identifier: Apache-2.0
#include "storage/index/shared_table.h"

#include <rocksdb/write_batch.h>

#include <string>

#include "protos/base/byte_codec.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"
#include "storage/index/index_key.h"

namespace msitd::storage {
namespace {

static_assert(kPartBytes < uint64_t{1} << 32);

constexpr char kSharedTag = 's';
constexpr int kLengthBytes = 4;
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
