// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/side_checks.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "client/foreign/trees/file_name.h"
#include "client/msit/compare/torchair.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

namespace fs = std::filesystem;

// The number of files among which a dump of FX is recognized.
constexpr size_t kExaminedFilesMax = 10000;

// Calls `take` with the name of each file below `folder` until it returns true.
// Returns whether it did.
template <typename Take>
bool FindFile(const std::string& folder, const Take& take) {
  std::error_code error;
  fs::recursive_directory_iterator at(
      folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    // A link to a folder counts as a file, because it is not followed.
    std::error_code ignored;
    if (fs::is_directory(at->symlink_status(ignored))) continue;
    if (take(at->path().filename().string())) return true;
  }
  return false;
}

bool HasFiles(const std::string& folder) {
  return FindFile(folder, [](const std::string&) { return true; });
}

bool IsFxDump(const std::string& folder) {
  size_t count = 0;
  bool is_fx = false;
  FindFile(folder, [&](const std::string& name) {
    is_fx = trees::ParseFxFileName(name).has_value();
    return is_fx || ++count == kExaminedFilesMax;
  });
  return is_fx;
}

bool Contains(std::string_view folder, std::string_view other) {
  return other.starts_with(folder) &&
         (other.size() == folder.size() || folder.ends_with('/') ||
          other[folder.size()] == '/');
}

absl::Status Mistake(std::string text) {
  return absl::InvalidArgumentError(std::move(text));
}

}  // namespace

absl::Status CheckSides(const std::string& golden, const std::string& my) {
  if (golden == my) {
    return Mistake("--golden-path and --my-path are the same folder, " +
                   golden +
                   ": nothing would differ. Pass the dumps of two runs");
  }
  for (const auto& [flag, folder] :
       {std::pair("--golden-path", &golden), std::pair("--my-path", &my)}) {
    if (HasFiles(*folder)) continue;
    return Mistake(std::string(flag) + ": " + *folder +
                   " contains no files that can be read. Pass the folder that "
                   "the dump was written to");
  }
  const bool is_golden_ge = !FindGraphs(golden, std::nullopt).empty();
  const bool is_my_ge = !FindGraphs(my, std::nullopt).empty();
  if (is_golden_ge && !is_my_ge && IsFxDump(my)) {
    return Mistake("the arguments are swapped: " + golden +
                   " is a dump of GE, which belongs to --my-path (-mp), and " +
                   my +
                   " is a dump of FX, which belongs to --golden-path (-gp)");
  }
  const bool is_inside = (is_my_ge && Contains(golden, my)) ||
                         (is_golden_ge && is_my_ge && Contains(my, golden));
  if (is_inside) {
    return Mistake(golden + " and " + my +
                   ": one folder contains the other, and a dump would be "
                   "compared with itself. Pass the folder of one dump for each "
                   "path");
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
