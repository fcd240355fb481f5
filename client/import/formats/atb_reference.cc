// SPDX-License-Identifier: Apache-2.0
#include "client/import/formats/atb_reference.h"

#include <filesystem>
#include <system_error>

#include "protos/base/digits.h"

namespace msitd::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInTensor = "intensor";
constexpr std::string_view kOutTensor = "outtensor";
constexpr std::string_view kSuffix = ".bin";
constexpr std::string_view kTimes[] = {"before", "after"};
// Ops in each other, and names in one folder that are looked at.
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

// `3_Layer`.
bool IsOpFolder(const std::string& name) {
  const size_t bar = name.find('_');
  return bar != std::string::npos && IsDigits(name.substr(0, bar));
}

// The folder that all ops of the execution lie in.
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

// The only folder of the op with this number.
std::optional<fs::path> OpIn(const fs::path& folder,
                             const std::string& number) {
  std::optional<fs::path> found;
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (++count > kNamesMax) return std::nullopt;
    std::error_code ignored;
    const bool is_op =
        at->path().filename().string().starts_with(number + "_") &&
        fs::is_directory(at->symlink_status(ignored));
    if (!is_op) continue;
    if (found.has_value()) return std::nullopt;
    found = at->path();
  }
  return found;
}

}  // namespace

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
                                            const std::string& folder) {
  std::optional<fs::path> path = ExecutionOf(folder);
  for (const std::string& op : reference.ops) {
    if (!path.has_value()) return std::nullopt;
    path = OpIn(*path, op);
  }
  if (!path.has_value()) return std::nullopt;
  const bool is_input = reference.file.starts_with(kInTensor);
  for (const std::string_view time :
       {kTimes[is_input ? 0 : 1], kTimes[is_input ? 1 : 0]}) {
    const fs::path parent = *path / time;
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
