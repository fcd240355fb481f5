// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/damaged_copy.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "protos/status/status.h"
#include "storage/index/db/index_db.h"
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

// Links tables and copies logs; copies manifests too if `with_manifests`.
absl::StatusOr<bool> CopyFiles(const fs::path& source, const fs::path& target,
                               bool with_manifests) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(source));
  const auto is_part = [&](const fs::path& path) {
    return path.extension() == ".sst" || path.extension() == ".log" ||
           (with_manifests &&
            ManifestNumber(path.filename().string()).has_value());
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

// RocksDB's repair reads the log only for tables of which some file says what
// their number is. Makes a file for each, with a key that nothing else has.
absl::Status SeedTables(const fs::path& target) {
  const fs::path seed = target.string() + ".seed";
  {
    MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<IndexDb> db,
                           IndexDb::Open({.directory = seed.string()}));
    rocksdb::WriteBatch batch;
    for (int i = 0; i < kTableCount; ++i)
      db->Put(batch, Table{i}, kSeedKey, "");
    MSITD_RETURN_IF_ERROR(db->WriteDurable(batch));
    MSITD_RETURN_IF_ERROR(db->Flush());
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

}  // namespace

absl::StatusOr<bool> CopyDamagedDatabase(const std::string& directory,
                                         const std::string& copy) {
  const fs::path target = copy;
  MSITD_ASSIGN_OR_RETURN(const bool has_files,
                         CopyFiles(directory, target, /*with_manifests=*/true));
  if (!has_files) return false;
  MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOf(target));
  std::optional<uint64_t> newest;
  std::string name;
  for (const fs::path& path : files) {
    const auto number = ManifestNumber(path.filename().string());
    if (!number.has_value() || (newest.has_value() && *newest > *number)) {
      continue;
    }
    newest = number;
    name = path.filename().string();
  }
  MSITD_RETURN_IF_ERROR(WriteText(target / "IDENTITY", "copy\n"));
  if (newest.has_value()) {
    MSITD_RETURN_IF_ERROR(WriteText(target / "CURRENT", name + "\n"));
  }
  return true;
}

absl::StatusOr<int> CopyAndRepairDatabase(const std::string& directory,
                                          const std::string& copy) {
  const fs::path target = copy;
  MSITD_ASSIGN_OR_RETURN(
      const bool has_files,
      CopyFiles(directory, target, /*with_manifests=*/false));
  if (!has_files) return absl::NotFoundError("there is nothing to repair");
  MSITD_RETURN_IF_ERROR(SeedTables(target));
  rocksdb::Options options;
  options.info_log = MakeIndexLogger();
  options.allow_fallocate = false;
  MSITD_RETURN_IF_ERROR(
      ToStatus(rocksdb::RepairDB(copy, options), "repair a copy of the index"));
  MSITD_ASSIGN_OR_RETURN(const std::vector<fs::path> lost,
                         FilesOf(target / "lost"));
  return static_cast<int>(std::count_if(
      lost.begin(), lost.end(),
      [](const fs::path& path) { return path.extension() == ".sst"; }));
}

}  // namespace msitd::storage
