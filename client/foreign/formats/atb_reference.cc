// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/atb_reference.h"

#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "protos/base/digits.h"

namespace msitd::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInTensor = "intensor";
constexpr std::string_view kOutTensor = "outtensor";
constexpr std::string_view kSuffix = ".bin";
constexpr std::string_view kTimes[] = {"before", "after"};
// Limits for nested ops, and for the names that are read in one folder.
constexpr size_t kOpsMax = 64;
constexpr size_t kNamesMax = size_t{1} << 16;

bool IsTensorFile(std::string_view name) {
  if (!name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  for (const std::string_view prefix : {kInTensor, kOutTensor}) {
    if (name.starts_with(prefix)) return IsDigits(name.substr(prefix.size()));
  }
  return false;
}

// True for a name such as `3_Layer`.
bool IsOpFolder(const std::string& name) {
  const size_t bar = name.find('_');
  return bar != std::string::npos && IsDigits(name.substr(0, bar));
}

// Returns the folder that contains all ops of the execution.
std::optional<fs::path> ExecutionOf(const std::string& folder) {
  std::error_code error;
  fs::path path = fs::absolute(folder, error).lexically_normal();
  if (error) return std::nullopt;
  const auto name = [&path] { return path.filename().string(); };
  for (const std::string_view time : kTimes) {
    if (name() != time) continue;
    path = path.parent_path();
    break;
  }
  for (size_t i = 0; i < kOpsMax && IsOpFolder(name()); ++i) {
    path = path.parent_path();
  }
  if (!IsDigits(name())) return std::nullopt;
  return path;
}

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

int64_t Now() {
  timespec now = {};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  return Nanoseconds(now);
}

}  // namespace

AtbFolders::Listing AtbFolders::List(const std::string& folder) {
  Listing out;
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (++count > kNamesMax) return {};
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    if (!IsOpFolder(name) || at->is_symlink(ignored) ||
        !at->is_directory(ignored)) {
      continue;
    }
    const auto [op, is_new] =
        out.ops.try_emplace(name.substr(0, name.find('_')), name);
    if (!is_new) op->second.clear();
  }
  return out;
}

std::optional<std::string> AtbFolders::Find(const std::string& folder,
                                            const std::string& number) {
  struct stat about = {};
  if (::stat(folder.c_str(), &about) != 0) return std::nullopt;
  const int64_t mtime_ns = Nanoseconds(about.st_mtim);
  auto known = listings_.find(folder);
  const bool is_fresh = known != listings_.end() &&
                        known->second.inode == about.st_ino &&
                        known->second.mtime_ns == mtime_ns &&
                        known->second.time_ns - mtime_ns > kClockStep.count();
  if (!is_fresh) {
    if (known != listings_.end()) listings_.erase(known);
    const int64_t time_ns = Now();
    Listing listing = List(folder);
    listing.inode = about.st_ino;
    listing.mtime_ns = mtime_ns;
    listing.time_ns = time_ns;
    listed_count_ += listing.ops.size() + 1;
    if (listed_count_ > kListedMax) {
      listings_.clear();
      listed_count_ = listing.ops.size() + 1;
    }
    known = listings_.emplace(folder, std::move(listing)).first;
  }
  const auto op = known->second.ops.find(number);
  if (op == known->second.ops.end() || op->second.empty()) return std::nullopt;
  return folder + "/" + op->second;
}

std::optional<AtbReference> ParseAtbReference(std::string_view name) {
  AtbReference out;
  for (size_t bar = name.find('_');
       bar != std::string_view::npos && IsDigits(name.substr(0, bar));
       bar = name.find('_')) {
    if (out.ops.size() == kOpsMax) return std::nullopt;
    out.ops.emplace_back(name.substr(0, bar));
    name.remove_prefix(bar + 1);
  }
  if (out.ops.empty() || !IsTensorFile(name)) return std::nullopt;
  out.file = name;
  return out;
}

std::optional<std::string> FindAtbReference(const AtbReference& reference,
                                            const std::string& folder,
                                            AtbFolders& folders) {
  const auto execution = ExecutionOf(folder);
  if (!execution.has_value()) return std::nullopt;
  std::optional<std::string> path = execution->string();
  for (const std::string& op : reference.ops) {
    path = folders.Find(*path, op);
    if (!path.has_value()) return std::nullopt;
  }
  const bool is_input = reference.file.starts_with(kInTensor);
  for (const std::string_view time :
       {kTimes[is_input ? 0 : 1], kTimes[is_input ? 1 : 0]}) {
    const fs::path parent = fs::path(*path) / time;
    const fs::path file = parent / reference.file;
    std::error_code ignored;
    if (fs::is_directory(fs::symlink_status(parent, ignored)) &&
        fs::is_regular_file(fs::symlink_status(file, ignored))) {
      return file.string();
    }
  }
  return std::nullopt;
}

}  // namespace msitd::formats
