// SPDX-License-Identifier: Apache-2.0
#include "storage/index/name_table.h"

#include <rocksdb/write_batch.h>

#include <limits>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kNextIdKey = "next_name_id";
constexpr char kNumberKeyTag = 'i';
constexpr size_t kNumberKeyBytes = 5;
// What an entry of the maps takes besides the name, roughly.
constexpr size_t kEntryBytes = 128;

std::string ByName(std::string_view name) {
  return std::string("n").append(name);
}

std::string Fixed32(uint32_t value) {
  std::string out(4, '\0');
  PutBigEndian(out.data(), value, 4);
  return out;
}

}  // namespace

std::string NumberKey(uint32_t id) {
  std::string key(kNumberKeyBytes, kNumberKeyTag);
  PutBigEndian(key.data() + 1, id, 4);
  return key;
}

bool IsNumberKey(std::string_view key, uint32_t& id) {
  if (key.size() != kNumberKeyBytes || key[0] != kNumberKeyTag) return false;
  id = static_cast<uint32_t>(GetBigEndian(key.data() + 1, 4));
  return true;
}

absl::Status NameTable::Load() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> next,
                         db_.Get(Table::kMeta, kNextIdKey));
  if (!next.has_value()) return absl::OkStatus();
  if (next->size() != 4) return IndexCorrupt("default");
  next_id_ = static_cast<uint32_t>(GetBigEndian(next->data(), 4));
  return absl::OkStatus();
}

void NameTable::Remember(std::string_view name, uint32_t id) {
  const MutexLock lock(mu_);
  if (cache_bytes_ > kCacheBytesMax) {
    names_.clear();
    ids_.clear();
    cache_bytes_ = 0;
  }
  const auto [it, inserted] = ids_.try_emplace(std::string(name), id);
  if (!inserted) return;
  names_[id] = &it->first;
  cache_bytes_ += name.size() + kEntryBytes;
}

absl::StatusOr<std::optional<uint32_t>> NameTable::Find(std::string_view name) {
  {
    const MutexLock lock(mu_);
    const auto it = ids_.find(name);
    if (it != ids_.end()) return std::optional<uint32_t>(it->second);
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kName, ByName(name)));
  if (!value.has_value()) return std::optional<uint32_t>();
  if (value->size() != 4) return IndexCorrupt("name");
  const auto id = static_cast<uint32_t>(GetBigEndian(value->data(), 4));
  Remember(name, id);
  return std::optional<uint32_t>(id);
}

absl::StatusOr<std::string> NameTable::NameOf(uint32_t id) {
  {
    const MutexLock lock(mu_);
    const auto it = names_.find(id);
    if (it != names_.end()) return *it->second;
  }
  MSITD_ASSIGN_OR_RETURN(std::optional<std::string> name,
                         db_.Get(Table::kName, NumberKey(id)));
  if (!name.has_value()) return IndexCorrupt("name");
  Remember(*name, id);
  return *std::move(name);
}

absl::StatusOr<uint32_t> NewNames::Intern(std::string_view name) {
  const auto it = added_.find(name);
  if (it != added_.end()) return it->second;
  MSITD_ASSIGN_OR_RETURN(const std::optional<uint32_t> known,
                         table_.Find(name));
  if (known.has_value()) return *known;
  if (next_id_ == std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError("the store holds too many names");
  }
  added_.emplace(name, next_id_);
  return next_id_++;
}

void NewNames::AppendTo(rocksdb::WriteBatch& batch) const {
  if (added_.empty()) return;
  const IndexDb& db = table_.db_;
  for (const auto& [name, id] : added_) {
    db.Put(batch, Table::kName, ByName(name), Fixed32(id));
    db.Put(batch, Table::kName, NumberKey(id), name);
  }
  db.Put(batch, Table::kMeta, kNextIdKey, Fixed32(next_id_));
}

void NewNames::Accept() {
  for (const auto& [name, id] : added_) table_.Remember(name, id);
  table_.next_id_ = next_id_;
  added_.clear();
}

}  // namespace msitd::storage
