// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_salvage.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "protos/status/status.h"
#include "storage/index/db/damaged_copy.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

using Visit =
    absl::FunctionRef<absl::Status(std::string_view, std::string_view)>;

absl::Status VisitAll(IndexDb& db, Table table, std::string_view prefix,
                      Visit visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const auto it = db.Iterate(table, options);
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    MSITD_RETURN_IF_ERROR(
        visit(it->key().ToStringView(), it->value().ToStringView()));
  }
  return ToStatus(it->status(), "read a copy of the index");
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
  fs::remove_all(scratch_, ignored);
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
  auto opened = IndexDb::Open(
      {.directory = copy, .read_only = true, .refuses_log_damage = true});
  if (!opened.ok()) {
    AddDamage(Message(opened.status()));
    return Merge();
  }
  as_is_ = *std::move(opened);
  CheckTables();
  const bool is_enough = std::all_of(std::begin(is_complete_),
                                     std::end(is_complete_), std::identity());
  return is_enough ? absl::OkStatus() : Merge();
}

void IndexSalvage::CheckTables() {
  std::fill(std::begin(is_complete_), std::end(is_complete_), true);
  std::vector<rocksdb::LiveFileMetaData> files;
  as_is_->db().GetLiveFilesMetaData(&files);
  std::set<std::string> live;
  for (const rocksdb::LiveFileMetaData& file : files) {
    const std::string path = AsIs() + file.name;
    live.insert(fs::path(path).filename().string());
    if (IsSoundTable(path)) continue;
    AddDamage(fmt::format("{} is damaged", path));
    for (int i = 0; i < kTableCount; ++i) {
      if (TableName(Table{i}) == file.column_family_name) {
        is_complete_[i] = false;
      }
    }
  }
  // A manifest that lost its end opens all the same. Then there are tables that
  // it does not name.
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(AsIs(), ignored)) {
    const fs::path& path = file.path();
    if (path.extension() != ".sst" || live.contains(path.filename().string()) ||
        !IsSoundTable(path.string())) {
      continue;
    }
    AddDamage(fmt::format("the manifest does not name {}", path.string()));
    std::fill(std::begin(is_complete_), std::end(is_complete_), false);
  }
}

absl::Status IndexSalvage::Merge() {
  const std::string copy = Merged();
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> unread,
                         MergeReadableFiles(index_directory_, copy));
  for (const std::string& file : unread) AddDamage(file);
  MSITD_ASSIGN_OR_RETURN(merged_,
                         IndexDb::Open({.directory = copy, .read_only = true}));
  return absl::OkStatus();
}

absl::Status IndexSalvage::ForEach(Table table, std::string_view prefix,
                                   Visit visit) {
  if (!exists_) return absl::OkStatus();
  if (IsComplete(table)) return VisitAll(*as_is_, table, prefix, visit);
  if (merged_ == nullptr) return absl::OkStatus();
  return VisitAll(*merged_, table, prefix,
                  [&visit](std::string_view key, std::string_view version) {
                    const auto value = DecodeVersion(version);
                    return value.has_value() ? visit(key, *value)
                                             : absl::OkStatus();
                  });
}

std::optional<std::string> IndexSalvage::Get(Table table,
                                             std::string_view key) {
  if (!exists_) return std::nullopt;
  if (IsComplete(table)) {
    auto value = as_is_->Get(table, key);
    return value.ok() ? *std::move(value) : std::nullopt;
  }
  if (merged_ == nullptr) return std::nullopt;
  const auto version = merged_->Get(table, key);
  if (!version.ok() || !version->has_value()) return std::nullopt;
  const auto value = DecodeVersion(**version);
  if (!value.has_value()) return std::nullopt;
  return std::string(*value);
}

}  // namespace msitd::storage
