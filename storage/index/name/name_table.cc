// SPDX-License-Identifier: Apache-2.0
#include "storage/index/name/name_table.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <limits>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kNextNameKey = "next_name_id";
constexpr char kNumberKeyTag = 'i';
constexpr size_t kNumberKeyBytes = 5;
// Rough size of an entry of the maps without its name.
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
                         db_.Get(Table::kMeta, kNextNameKey));
  if (!next.has_value()) return absl::OkStatus();
  if (next->size() != 4) return IndexCorrupt("default");
  next_id_ = static_cast<uint32_t>(GetBigEndian(next->data(), 4));
  return absl::OkStatus();
}

void NameTable::Remember(std::string_view name, uint32_t id,
                         uint64_t removal_count) {
  const MutexLock lock(mu_);
  if (removal_count != removal_count_) return;
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
  uint64_t removals = 0;
  {
    const MutexLock lock(mu_);
    removals = removal_count_;
    const auto it = ids_.find(name);
    if (it != ids_.end()) {
      UseLocked(it->second);
      return std::optional<uint32_t>(it->second);
    }
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kName, ByName(name)));
  if (!value.has_value()) return std::optional<uint32_t>();
  if (value->size() != 4) return IndexCorrupt("name");
  const auto id = static_cast<uint32_t>(GetBigEndian(value->data(), 4));
  Use(id);
  Remember(name, id, removals);
  return std::optional<uint32_t>(id);
}

absl::StatusOr<std::string> NameTable::NameOf(uint32_t id) {
  uint64_t removals = 0;
  {
    const MutexLock lock(mu_);
    removals = removal_count_;
    const auto it = names_.find(id);
    if (it != names_.end()) return *it->second;
  }
  MSITD_ASSIGN_OR_RETURN(std::optional<std::string> name,
                         db_.Get(Table::kName, NumberKey(id)));
  if (!name.has_value()) return IndexCorrupt("name");
  Remember(*name, id, removals);
  return *std::move(name);
}

void NameTable::Watch(uint32_t begin, uint32_t end) {
  const MutexLock lock(mu_);
  watch_begin_ = begin;
  used_.assign(end - begin, false);
}

void NameTable::UseLocked(uint32_t id) {
  if (id >= watch_begin_ && id - watch_begin_ < used_.size()) {
    used_[id - watch_begin_] = true;
  }
}

void NameTable::Use(std::span<const uint32_t> ids) {
  const MutexLock lock(mu_);
  for (const uint32_t id : ids) UseLocked(id);
}

void NameTable::EndWatch() {
  const MutexLock lock(mu_);
  used_ = {};
}

absl::Status NameTable::RemoveUnused(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> unused;
  {
    const MutexLock lock(mu_);
    for (uint32_t id = begin; id < end; ++id) {
      if (!used_[id - watch_begin_]) unused.push_back(id);
    }
  }
  rocksdb::WriteBatch batch;
  std::vector<std::string> gone;
  for (const uint32_t id : unused) {
    MSITD_ASSIGN_OR_RETURN(std::optional<std::string> name,
                           db_.Get(Table::kName, NumberKey(id)));
    if (!name.has_value()) continue;
    db_.Delete(batch, Table::kName, NumberKey(id));
    db_.Delete(batch, Table::kName, ByName(*name));
    gone.push_back(*std::move(name));
  }
  if (gone.empty()) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(db_.WriteUnlogged(batch));
  const MutexLock lock(mu_);
  ++removal_count_;
  for (const std::string& name : gone) {
    const auto it = ids_.find(name);
    if (it == ids_.end()) continue;
    names_.erase(it->second);
    ids_.erase(it);
    cache_bytes_ -= std::min(cache_bytes_, name.size() + kEntryBytes);
  }
  return absl::OkStatus();
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
  db.Put(batch, Table::kMeta, kNextNameKey, Fixed32(next_id_));
}

void NewNames::Accept() {
  const uint64_t removals = table_.removal_count();
  for (const auto& [name, id] : added_) table_.Remember(name, id, removals);
  table_.next_id_ = next_id_;
  added_.clear();
}

}  // namespace msitd::storage
