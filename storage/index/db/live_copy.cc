// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/live_copy.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

absl::Status StatusOf(const std::error_code& error, std::string_view what,
                      const fs::path& path) {
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), fmt::format("{} {}", what, path.string()));
}

absl::Status CopyFile(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  return StatusOf(error, "copy", from);
}

// Returns the files of `directory` that end in `suffix`, ordered by name and so
// by number.
absl::StatusOr<std::set<fs::path>> List(const fs::path& directory,
                                        std::string_view suffix) {
  std::set<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == suffix) out.insert(it->path());
  }
  MSITD_RETURN_IF_ERROR(StatusOf(error, "list", directory));
  return out;
}

}  // namespace

absl::Status CopyLiveDatabase(const std::string& directory,
                              const std::string& copy) {
  const fs::path source = fs::absolute(directory);
  const fs::path target = copy;
  // Logs are copied before the manifest: RocksDB removes a log only once the
  // manifest names the tables that replace it. In the other order, the copy
  // might miss both.
  MSITD_ASSIGN_OR_RETURN(const std::set<fs::path> logs, List(source, ".log"));
  for (const fs::path& log : logs) {
    const absl::Status copied = CopyFile(log, target / log.filename());
    if (!copied.ok() && !absl::IsNotFound(copied)) return copied;
  }
  std::ifstream current(source / "CURRENT");
  std::string manifest;
  if (!std::getline(current, manifest)) {
    return MakeStatus(absl::StatusCode::kNotFound, "{} holds no database",
                      directory);
  }
  const absl::Status copied = CopyFile(source / manifest, target / manifest);
  if (absl::IsNotFound(copied)) return absl::UnavailableError(copied.message());
  MSITD_RETURN_IF_ERROR(copied);
  std::ofstream copied_current(target / "CURRENT");
  copied_current << manifest << '\n';
  copied_current.close();
  if (!copied_current) return ErrnoStatus(errno, "write a copy of CURRENT");
  MSITD_RETURN_IF_ERROR(CopyFile(source / "IDENTITY", target / "IDENTITY"));
  MSITD_ASSIGN_OR_RETURN(const std::set<fs::path> tables, List(source, ".sst"));
  for (const fs::path& table : tables) {
    std::error_code error;
    fs::create_symlink(table, target / table.filename(), error);
    MSITD_RETURN_IF_ERROR(StatusOf(error, "link to", table));
  }
  return absl::OkStatus();
}

}  // namespace msitd::storage
