// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_salvage.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "protos/status/status.h"
#include "storage/index/db/damaged_copy.h"

namespace msitd::storage {
namespace {

using Visit =
    absl::FunctionRef<absl::Status(std::string_view, std::string_view)>;

// Visits the entries from the first one up to damage, and from the last one
// back to it. Returns the damage in `damage`.
absl::Status VisitAround(IndexDb& db, Table table, std::string_view prefix,
                         rocksdb::Status& damage, Visit visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  auto it = db.Iterate(table, options);
  std::string last;
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    last = it->key().ToString();
    MSITD_RETURN_IF_ERROR(
        visit(it->key().ToStringView(), it->value().ToStringView()));
  }
  damage = it->status();
  if (damage.ok()) return absl::OkStatus();
  it = db.Iterate(table, options);
  // No key of the index has a byte of 0xff after its prefix so often.
  it->SeekForPrev(std::string(prefix) + std::string(64, '\xff'));
  for (; it->Valid() && it->key().starts_with(prefix); it->Prev()) {
    if (!last.empty() && it->key().compare(last) <= 0) break;
    MSITD_RETURN_IF_ERROR(
        visit(it->key().ToStringView(), it->value().ToStringView()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<IndexSalvage>> IndexSalvage::Open(
    const std::string& index_directory, const std::string& scratch) {
  std::unique_ptr<IndexSalvage> out(new IndexSalvage(index_directory, scratch));
  MSITD_RETURN_IF_ERROR(out->OpenCopy());
  return out;
}

IndexSalvage::~IndexSalvage() {
  as_is_.reset();
  merged_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(scratch_, ignored);
}

void IndexSalvage::AddDamage(std::string_view what) {
  std::string text(what);
  // Name the files of the index, not those of the copy.
  for (const std::string& copy : {AsIs(), Merged()}) {
    for (size_t at = text.find(copy); at != std::string::npos;
         at = text.find(copy, at + index_directory_.size())) {
      text.replace(at, copy.size(), index_directory_);
    }
  }
  if (std::find(damage_.begin(), damage_.end(), text) == damage_.end()) {
    damage_.push_back(std::move(text));
  }
}

absl::Status IndexSalvage::OpenCopy() {
  const std::string copy = AsIs();
  MSITD_ASSIGN_OR_RETURN(exists_, CopyDamagedDatabase(index_directory_, copy));
  if (!exists_) {
    AddDamage("there is no index");
    return absl::OkStatus();
  }
  using LogDamage = IndexDb::Options::LogDamage;
  for (const LogDamage log_damage :
       {LogDamage::kRefused, LogDamage::kSkipped}) {
    auto opened = IndexDb::Open(
        {.directory = copy, .read_only = true, .log_damage = log_damage});
    if (opened.ok()) {
      as_is_ = *std::move(opened);
      is_as_is_proven_ = log_damage == LogDamage::kRefused;
      return absl::OkStatus();
    }
    AddDamage(Message(opened.status()));
  }
  return absl::OkStatus();
}

absl::Status IndexSalvage::Merge() {
  if (std::exchange(has_merged_, true) || !exists_) return absl::OkStatus();
  const std::string copy = Merged();
  const absl::StatusOr<std::vector<std::string>> unread =
      MergeReadableFiles(index_directory_, copy);
  if (!unread.ok()) {
    AddDamage(Message(unread.status()));
    return absl::IsResourceExhausted(unread.status()) ? unread.status()
                                                      : absl::OkStatus();
  }
  for (const std::string& file : *unread) AddDamage(file);
  MSITD_ASSIGN_OR_RETURN(merged_,
                         IndexDb::Open({.directory = copy, .read_only = true}));
  return absl::OkStatus();
}

bool IndexSalvage::IsComplete(Table table) {
  std::optional<bool>& known = is_complete_[static_cast<size_t>(table)];
  if (known.has_value()) return *known;
  known = false;
  if (as_is_ == nullptr) return false;
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const auto it = as_is_->Iterate(table, options);
  it->SeekToFirst();
  while (it->Valid()) it->Next();
  if (!it->status().ok()) AddDamage(it->status().ToString());
  known = it->status().ok() && is_as_is_proven_;
  return *known;
}

absl::Status IndexSalvage::ForEach(Table table, std::string_view prefix,
                                   Visit visit) {
  if (!exists_) return absl::OkStatus();
  rocksdb::Status damage;
  if (!IsComplete(table)) {
    MSITD_RETURN_IF_ERROR(Merge());
    if (merged_ != nullptr) {
      MSITD_RETURN_IF_ERROR(VisitAround(
          *merged_, table, prefix, damage,
          [&visit](std::string_view key, std::string_view version) {
            const auto value = DecodeVersion(version);
            return value.has_value() ? visit(key, *value) : absl::OkStatus();
          }));
    }
  }
  if (as_is_ == nullptr) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(VisitAround(*as_is_, table, prefix, damage, visit));
  return absl::OkStatus();
}

std::optional<std::string> IndexSalvage::Get(Table table,
                                             std::string_view key) {
  if (as_is_ != nullptr) {
    auto value = as_is_->Get(table, key);
    if (value.ok() && (value->has_value() || IsComplete(table))) return *value;
  }
  if (!Merge().ok() || merged_ == nullptr) return std::nullopt;
  const auto version = merged_->Get(table, key);
  if (!version.ok() || !version->has_value()) return std::nullopt;
  const auto value = DecodeVersion(**version);
  if (!value.has_value()) return std::nullopt;
  return std::string(*value);
}

}  // namespace msitd::storage
