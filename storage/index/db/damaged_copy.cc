// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/damaged_copy.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/utilities/debug.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/env/env.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_file_system.h"
#include "storage/index/db/index_logger.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifestPrefix = "MANIFEST-";
// Numbers of seed tables; RocksDB counts from 1.
constexpr uint64_t kSeedTablesBegin = 900'000'000;
// No table of the index has this key.
constexpr std::string_view kSeedKey = "\xff\xff seed";

absl::Status FailureOf(const std::error_code& error, std::string_view what,
                       const fs::path& path) {
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), fmt::format("{} {}", what, path.string()));
}

absl::StatusOr<std::vector<fs::path>> FilesOf(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) out.push_back(it->path());
  }
  if (error == std::errc::no_such_file_or_directory) return out;
  MSITD_RETURN_IF_ERROR(FailureOf(error, "list", directory));
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<uint64_t> ManifestNumber(std::string_view name) {
  if (!name.starts_with(kManifestPrefix)) return std::nullopt;
  name.remove_prefix(kManifestPrefix.size());
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) {
    return std::nullopt;
  }
  return number;
}

absl::Status WriteText(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return ErrnoStatus(errno, "write " + path.string());
  return absl::OkStatus();
}

// Links tables, and copies logs and manifests.
absl::StatusOr<bool> CopyFiles(const fs::path& source, const fs::path& target) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(source));
  const auto is_part = [&](const fs::path& path) {
    return path.extension() == ".sst" || path.extension() == ".log" ||
           ManifestNumber(path.filename().string()).has_value();
  };
  if (std::none_of(files.begin(), files.end(), is_part)) return false;
  std::error_code error;
  fs::create_directories(target, error);
  MSITD_RETURN_IF_ERROR(FailureOf(error, "make directory", target));
  for (const fs::path& path : files) {
    if (!is_part(path)) continue;
    if (path.extension() == ".sst") {
      fs::create_symlink(fs::absolute(path), target / path.filename(), error);
    } else {
      fs::copy_file(path, target / path.filename(), error);
    }
    MSITD_RETURN_IF_ERROR(FailureOf(error, "copy", path));
  }
  return true;
}

// RocksDB's repair reads the log only for tables whose number is stated by a
// file. Creates a file for each table, with a key that occurs nowhere else.
absl::Status SeedTables(const fs::path& target) {
  const fs::path seed = target.string() + ".seed";
  {
    MSITD_ASSIGN_OR_RETURN(
        const std::unique_ptr<IndexDb> db,
        IndexDb::Open({.directory = seed.string(), .env = &Env::Fleeting()}));
    rocksdb::WriteBatch batch;
    for (int i = 0; i < kTableCount; ++i) {
      db->Put(batch, Table{i}, kSeedKey, "");
    }
    MSITD_RETURN_IF_ERROR(db->WriteUnlogged(batch));
    MSITD_RETURN_IF_ERROR(db->Flush());
    // Gives the keys the sequence number 0, which is lower than any other.
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction =
        rocksdb::BottommostLevelCompaction::kForce;
    for (int i = 0; i < kTableCount; ++i) {
      MSITD_RETURN_IF_ERROR(ToStatus(
          db->db().CompactRange(options, db->table(Table{i}), nullptr, nullptr),
          "compact"));
    }
  }
  MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(seed));
  uint64_t number = kSeedTablesBegin;
  std::error_code error;
  for (const fs::path& path : files) {
    if (path.extension() != ".sst") continue;
    fs::rename(path, target / fmt::format("{:06}.sst", number++), error);
    MSITD_RETURN_IF_ERROR(FailureOf(error, "move", path));
  }
  fs::remove_all(seed, error);
  return FailureOf(error, "remove", seed);
}

std::optional<Table> TableOf(std::string_view name) {
  for (int i = 0; i < kTableCount; ++i) {
    if (TableName(Table{i}) == name) return Table{i};
  }
  return std::nullopt;
}

// The environment for files of copies, which need not survive the process.
rocksdb::Env* CopyEnv() {
  static CompactionPause pause;
  static rocksdb::Env* const env =
      rocksdb::NewCompositeEnv(
          MakeIndexFileSystem(Env::Fleeting(), /*ballast=*/nullptr, pause))
          .release();
  return env;
}

rocksdb::Options ReadingOptions() {
  rocksdb::Options options;
  options.env = CopyEnv();
  options.info_log = MakeIndexLogger();
  options.allow_fallocate = false;
  return options;
}

// A version consists of the sequence number, a byte that states whether it is a
// value, and the value.
constexpr size_t kVersionHeadBytes = 9;
// RocksDB's number for deletions.
constexpr int kDeletionType = 0;
constexpr int kValueType = 1;
constexpr int kSingleDeletionType = 7;
constexpr size_t kVersionsAtATime = 8192;

class FileMerge {
 public:
  FileMerge(const fs::path& source, std::string scratch, IndexDb& into)
      : source_(source), scratch_(std::move(scratch)), into_(into) {}

  absl::StatusOr<std::vector<std::string>> Run() {
    MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(source_));
    for (const fs::path& path : files) {
      if (path.extension() != ".sst") continue;
      const absl::Status merged = MergeTable(path);
      if (absl::IsResourceExhausted(merged)) return merged;
      if (merged.ok()) continue;
      unread_.push_back(fmt::format("{}: {}", path.string(), Message(merged)));
      MSITD_RETURN_IF_ERROR(MergeAroundDamage(path));
    }
    const absl::Status merged = MergeLogs(files);
    if (absl::IsResourceExhausted(merged)) return merged;
    if (!merged.ok()) {
      unread_.push_back(fmt::format("logs: {}", Message(merged)));
    }
    MSITD_RETURN_IF_ERROR(into_.Flush());
    return unread_;
  }

 private:
  // Creates an empty directory for a database of some of the files.
  absl::Status Clear() {
    std::error_code error;
    fs::remove_all(scratch_, error);
    if (!error) fs::create_directories(scratch_, error);
    return FailureOf(error, "make directory", scratch_);
  }

  absl::Status MergeTable(const fs::path& path) {
    // Iterators over several tables may not tolerate a damaged one.
    if (!IsSoundTable(path.string())) {
      return absl::DataLossError("the table is damaged");
    }
    MSITD_RETURN_IF_ERROR(Clear());
    std::error_code error;
    fs::create_symlink(fs::absolute(path), scratch_ / path.filename(), error);
    MSITD_RETURN_IF_ERROR(FailureOf(error, "link to", path));
    MSITD_RETURN_IF_ERROR(Repair());
    if (fs::exists(scratch_ / "lost" / path.filename())) {
      return absl::DataLossError("the table is damaged");
    }
    return MergeDatabase();
  }

  absl::Status MergeLogs(const std::vector<fs::path>& files) {
    MSITD_RETURN_IF_ERROR(Clear());
    bool has_logs = false;
    for (const fs::path& path : files) {
      if (path.extension() != ".log") continue;
      std::error_code error;
      fs::copy_file(path, scratch_ / path.filename(), error);
      MSITD_RETURN_IF_ERROR(FailureOf(error, "copy", path));
      has_logs = true;
    }
    if (!has_logs) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(SeedTables(scratch_));
    MSITD_RETURN_IF_ERROR(Repair());
    return MergeDatabase();
  }

  absl::Status Repair() {
    return ToStatus(rocksdb::RepairDB(scratch_.string(), ReadingOptions()),
                    "repair a copy of the index");
  }

  // Merges the entries of the database in scratch_.
  absl::Status MergeDatabase() {
    const rocksdb::Options options = ReadingOptions();
    std::vector<std::string> names;
    MSITD_RETURN_IF_ERROR(ToStatus(
        rocksdb::DB::ListColumnFamilies(options, scratch_.string(), &names),
        "list tables"));
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : names) {
      descriptors.emplace_back(name, options);
    }
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    MSITD_RETURN_IF_ERROR(
        ToStatus(rocksdb::DB::OpenForReadOnly(options, scratch_.string(),
                                              descriptors, &handles, &opened),
                 "open a copy of the index"));
    const std::unique_ptr<rocksdb::DB> db(opened);
    absl::Status status;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::optional<Table> table = TableOf(names[i]);
      if (status.ok() && table.has_value()) {
        status = MergeVersions(*db, handles[i], *table);
      }
    }
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
    return status;
  }

  absl::Status MergeVersions(rocksdb::DB& db,
                             rocksdb::ColumnFamilyHandle* handle, Table table) {
    std::string begin;
    while (true) {
      std::vector<rocksdb::KeyVersion> versions;
      MSITD_RETURN_IF_ERROR(
          ToStatus(rocksdb::GetAllKeyVersions(&db, handle, begin, "",
                                              kVersionsAtATime, &versions),
                   "read a table"));
      const std::string* last = nullptr;
      for (const rocksdb::KeyVersion& version : versions) {
        // The newest version of a key is first.
        if (last != nullptr && *last == version.user_key) continue;
        last = &version.user_key;
        const bool is_deletion = version.type == kDeletionType ||
                                 version.type == kSingleDeletionType;
        if (!is_deletion && version.type != kValueType) continue;
        MSITD_RETURN_IF_ERROR(Merge(table, version.user_key, version.sequence,
                                    !is_deletion, version.value));
      }
      MSITD_RETURN_IF_ERROR(into_.WriteUnlogged(batch_));
      batch_.Clear();
      if (versions.size() < kVersionsAtATime) return absl::OkStatus();
      begin = versions.back().user_key + '\0';
    }
  }

  // Merges entries of a table that has damaged blocks, treating them as older
  // than all others, because versions that deleted or replaced them may be in
  // those blocks.
  absl::Status MergeAroundDamage(const fs::path& path) {
    rocksdb::SstFileReader reader(ReadingOptions());
    if (!reader.Open(path.string()).ok()) return absl::OkStatus();
    const std::optional<Table> table =
        TableOf(reader.GetTableProperties()->column_family_name);
    if (!table.has_value()) return absl::OkStatus();
    std::string last;
    size_t count = 0;
    const auto merge = [&](const rocksdb::Iterator& it) -> absl::Status {
      MSITD_RETURN_IF_ERROR(Merge(*table, it.key().ToStringView(), 0, true,
                                  it.value().ToStringView()));
      if (++count % kVersionsAtATime != 0) return absl::OkStatus();
      MSITD_RETURN_IF_ERROR(into_.WriteUnlogged(batch_));
      batch_.Clear();
      return absl::OkStatus();
    };
    std::unique_ptr<rocksdb::Iterator> it(
        reader.NewIterator(rocksdb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      last = it->key().ToString();
      MSITD_RETURN_IF_ERROR(merge(*it));
    }
    if (!it->status().ok()) {
      it.reset(reader.NewIterator(rocksdb::ReadOptions()));
      for (it->SeekToLast(); it->Valid() && it->key().compare(last) > 0;
           it->Prev()) {
        MSITD_RETURN_IF_ERROR(merge(*it));
      }
    }
    MSITD_RETURN_IF_ERROR(into_.WriteUnlogged(batch_));
    batch_.Clear();
    return absl::OkStatus();
  }

  // Adds a version to batch_ unless there is a newer one. A batch has each key
  // only once.
  absl::Status Merge(Table table, std::string_view key, uint64_t sequence,
                     bool is_value, std::string_view value) {
    if (key == kSeedKey) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> known,
                           into_.Get(table, key));
    if (known.has_value() && known->size() >= kVersionHeadBytes &&
        GetBigEndian(known->data(), 8) >= sequence) {
      return absl::OkStatus();
    }
    std::string version = BigEndianKey(sequence);
    version.push_back(is_value ? '\1' : '\0');
    version.append(value);
    into_.Put(batch_, table, key, version);
    return absl::OkStatus();
  }

  const fs::path source_;
  const fs::path scratch_;
  IndexDb& into_;
  rocksdb::WriteBatch batch_;
  std::vector<std::string> unread_;
};

}  // namespace

absl::StatusOr<bool> CopyDamagedDatabase(const std::string& directory,
                                         const std::string& copy) {
  const fs::path target = copy;
  MSITD_ASSIGN_OR_RETURN(const bool has_files, CopyFiles(directory, target));
  if (!has_files) return false;
  MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(target));
  // A manifest newer than that of CURRENT may be incomplete.
  std::ifstream current(fs::path(directory) / "CURRENT", std::ios::binary);
  std::string name;
  std::getline(current, name);
  std::optional<uint64_t> newest;
  if (!ManifestNumber(name).has_value() || !fs::exists(target / name)) {
    name.clear();
  }
  for (const fs::path& path : files) {
    const auto number = ManifestNumber(path.filename().string());
    if (!name.empty() && !newest.has_value()) break;
    if (!number.has_value() || (newest.has_value() && *newest > *number)) {
      continue;
    }
    newest = number;
    name = path.filename().string();
  }
  MSITD_RETURN_IF_ERROR(WriteText(target / "IDENTITY", "copy\n"));
  if (!name.empty()) {
    MSITD_RETURN_IF_ERROR(WriteText(target / "CURRENT", name + "\n"));
  }
  return true;
}

bool IsSoundTable(const std::string& path) {
  rocksdb::SstFileReader reader(ReadingOptions());
  return reader.Open(path).ok() && reader.VerifyChecksum().ok();
}

absl::StatusOr<std::vector<std::string>> MergeReadableFiles(
    const std::string& directory, const std::string& copy) {
  const std::string scratch = copy + ".part";
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<IndexDb> into,
      IndexDb::Open({.directory = copy, .env = &Env::Fleeting()}));
  absl::StatusOr<std::vector<std::string>> unread =
      FileMerge(directory, scratch, *into).Run();
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  return unread;
}

std::optional<std::string_view> DecodeVersion(std::string_view version) {
  if (version.size() < kVersionHeadBytes || version[8] == '\0') {
    return std::nullopt;
  }
  return version.substr(kVersionHeadBytes);
}

}  // namespace msitd::storage
