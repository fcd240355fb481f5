// SPDX-License-Identifier: Apache-2.0
#include "client/msit/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "client/ctl/print/file_sink.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

constexpr int kSameNameMax = 1000;

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
  std::string path = fmt::format("{}/{}.csv", folder, stem);
  for (int i = 1; std::filesystem::exists(path, error); ++i) {
    if (i == kSameNameMax) return ErrnoStatus(EEXIST, path);
    path = fmt::format("{}/{}_{}.csv", folder, stem, i);
  }
  MSITD_ASSIGN_OR_RETURN(
      ctl::FileSink sink,
      ctl::FileSink::Open(path, /*stdout_is_terminal=*/false));
  MSITD_RETURN_IF_ERROR(sink.Write(text));
  MSITD_RETURN_IF_ERROR(sink.Commit());
  return path;
}

}  // namespace msitd::msit
