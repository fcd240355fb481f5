// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/diagnostics.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/log/log_sink.h"
#include "protos/base/utf8.h"

namespace msitd::server {
namespace {

constexpr size_t kFilesListedMax = 4096;
constexpr size_t kSystemFileBytesMax = size_t{64} << 10;
constexpr uint64_t kBlockBytes = 512;  // The unit of st_blocks.

// Replaces invalid text, because messages may contain only valid UTF-8.
std::string Valid(std::string text) {
  if (IsValidUtf8(text)) return text;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

void AddFile(v1::Diagnostics& out, std::string_view name,
             std::string_view summary, std::string content) {
  v1::Diagnostics::File& file = *out.add_files();
  file.set_name(std::string(name));
  file.set_summary(std::string(summary));
  file.set_content(Valid(std::move(content)));
}

std::string LogText() {
  std::string out;
  log::LogSink* const sink = log::Sink();
  if (sink == nullptr) return out;
  for (const std::string& line : sink->Recent()) out += line + "\n";
  return out;
}

// Lists the files of a directory with their sizes and their disk usage.
std::string Listing(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(directory, error);
  for (; !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string out = fmt::format("{}: {} files{}\n", directory, names.size(),
                                error ? ", " + error.message() : "");
  const size_t shown = std::min(names.size(), kFilesListedMax);
  for (size_t i = 0; i < shown; ++i) {
    struct stat info {};
    const std::string path = directory + "/" + names[i];
    if (::lstat(path.c_str(), &info) != 0) continue;
    out += fmt::format("  {}  size={} disk={}\n", names[i], info.st_size,
                       static_cast<uint64_t>(info.st_blocks) * kBlockBytes);
  }
  if (shown < names.size()) {
    out += fmt::format("  and {} more\n", names.size() - shown);
  }
  return out;
}

std::string SystemText() {
  constexpr std::array<const char*, 7> kPaths = {
      "/proc/self/status",    "/proc/self/limits",  "/proc/self/io",
      "/proc/self/cgroup",    "/proc/pressure/cpu", "/proc/pressure/io",
      "/proc/pressure/memory"};
  std::string out;
  for (const char* path : kPaths) {
    std::ifstream file(path);
    std::string text(std::istreambuf_iterator<char>(file), {});
    text.resize(std::min(text.size(), kSystemFileBytesMax));
    out += fmt::format("== {}\n{}\n", path, text);
  }
  return out;
}

}  // namespace

v1::Diagnostics GatherDiagnostics(const config::DaemonConfig& config,
                                  const NodeMetrics& metrics) {
  v1::Diagnostics out;
  AddFile(out, "config.toml", "the configuration in force",
          config::ToToml(config));
  AddFile(out, "metrics.txt", "the metrics, as Prometheus reads them",
          metrics.Text());
  AddFile(out, "log.txt", "the last lines of the log", LogText());
  AddFile(out, "store.txt", "the files of the store and their sizes",
          Listing(config.data_dir) + Listing(config.data_dir + "/segments") +
              Listing(config.data_dir + "/index"));
  AddFile(out, "process.txt", "what the system says of the process",
          SystemText());
  return out;
}

}  // namespace msitd::server
