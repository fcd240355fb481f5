// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "client/ask/print/file_sink.h"
#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr int kSameNameMax = 1000;
constexpr int kCheckAttempts = 4;

// A report is written in pieces of this size, because its rows are produced one
// by one.
constexpr size_t kWriteBytes = size_t{64} << 10;

constexpr mode_t kFolderMode = 0700;

std::string TimeStamp(std::chrono::hours ahead) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::system_clock::now() + ahead);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}{:02}{:02}{:02}{:02}{:02}", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

// Creates an empty file with the first name that is available.
absl::StatusOr<std::string> ReserveName(const std::string& folder,
                                        const std::string& stem,
                                        const std::string& extension) {
  std::string path = fmt::format("{}/{}{}", folder, stem, extension);
  for (int i = 1;; ++i) {
    const UniqueFd file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.valid()) return path;
    if (errno != EEXIST || i == kSameNameMax) return ErrnoStatus(errno, path);
    path = fmt::format("{}/{}_{}{}", folder, stem, i, extension);
  }
}

// Implements CheckReportFolder once.
absl::Status TryReportFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> made;
  std::error_code error;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error);
       at = at.parent_path()) {
    made.push_back(at);
    if (at == at.parent_path()) break;
  }
  absl::Status out = MakeReportFolder(folder);
  if (out.ok()) {
    std::string path = folder + "/.msit-XXXXXX";
    const UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
    if (file.valid()) {
      ::unlink(path.c_str());
    } else {
      out = ErrnoStatus(errno, "write into " + folder);
    }
  }
  for (const fs::path& path : made) ::rmdir(path.c_str());
  return out;
}

}  // namespace

std::string ChinaTimeStamp() { return TimeStamp(std::chrono::hours(8)); }

std::string UtcTimeStamp() { return TimeStamp(std::chrono::hours(0)); }

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(path, error);
  if (error) return path;
  const std::filesystem::path real =
      std::filesystem::weakly_canonical(full, error);
  return error ? full.string() : real.string();
}

absl::StatusOr<std::string> WriteCsvFile(const std::string& folder,
                                         const std::string& stem,
                                         std::string_view text) {
  std::error_code error;
  const std::filesystem::path above =
      std::filesystem::path(folder).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, error);
  if (error || (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST)) {
    return ErrnoStatus(error ? error.value() : errno, "make " + folder);
  }
  return WriteReportFile(folder, stem, ".csv",
                         [text](const ByteTake& take) { return take(text); });
}

absl::Status MakeReportFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? ErrnoStatus(error.value(), "make " + folder)
               : absl::OkStatus();
}

absl::Status CheckReportFolder(const std::string& folder) {
  absl::Status out;
  // Another msit may remove the folder that both just created.
  for (int i = 0; i < kCheckAttempts; ++i) {
    out = TryReportFolder(folder);
    if (!absl::IsNotFound(out)) break;
  }
  return out;
}

absl::Status ReplaceReportFile(
    const std::string& path,
    const std::function<absl::Status(const ByteTake&)>& write) {
  MSITD_ASSIGN_OR_RETURN(
      ask::FileSink sink,
      ask::FileSink::Open(path, /*stdout_is_terminal=*/false));
  std::string buffer;
  MSITD_RETURN_IF_ERROR(write([&](std::string_view bytes) {
    buffer += bytes;
    if (buffer.size() < kWriteBytes) return absl::OkStatus();
    return sink.Write(std::exchange(buffer, {}));
  }));
  MSITD_RETURN_IF_ERROR(sink.Write(buffer));
  return sink.Commit();
}

absl::StatusOr<std::string> WriteReportFile(
    const std::string& folder, const std::string& stem,
    const std::string& extension,
    const std::function<absl::Status(const ByteTake&)>& write) {
  MSITD_ASSIGN_OR_RETURN(const std::string path,
                         ReserveName(folder, stem, extension));
  const absl::Status status = ReplaceReportFile(path, write);
  if (status.ok()) return path;
  ::unlink(path.c_str());
  return status;
}

}  // namespace msitd::msit_command
