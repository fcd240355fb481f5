// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/torchair.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "client/import/trees/file_name.h"
#include "client/match/models.h"
#include "client/msit/compare/rank_comparison.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

namespace fs = std::filesystem;

// Graphs lie in the first of them, and folders of ranks.
constexpr int kGraphDepthMax = 5;
// Folders that a message names.
constexpr size_t kNamedFoldersMax = 4;

uint64_t FirstNumber(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const size_t digit = name.find_first_of("0123456789");
  if (digit == std::string::npos) return 0;
  return std::strtoull(name.c_str() + digit, nullptr, 10);
}

// The folders of ranks, the last one by name for each rank.
std::map<int32_t, std::string> RankFolders(const std::string& folder,
                                           Logger* log) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) names.insert(at->path().filename().string());
  }
  std::map<int32_t, std::string> out;
  for (const std::string& name : names) {
    const auto rank = trees::ParseRankFolder(name);
    if (!rank.has_value()) continue;
    std::string& path = out[rank->rank];
    if (!path.empty() && log != nullptr) {
      log->Warning(fmt::format("{} is not compared: {} is of the same rank",
                               path, name));
    }
    path = folder + "/" + name;
  }
  return out;
}

// The folder at or below `folder` in which the folders of ranks lie; `folder`
// if there are none. INVALID_ARGUMENT if they lie in several.
absl::StatusOr<std::string> FolderOfRanks(const std::string& folder) {
  if (!RankFolders(folder, nullptr).empty()) return folder;
  std::set<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator at(
      folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) continue;
    if (trees::ParseRankFolder(at->path().filename().string()).has_value()) {
      found.insert(at->path().parent_path().string());
      at.disable_recursion_pending();
    } else if (at.depth() >= kGraphDepthMax) {
      at.disable_recursion_pending();
    }
  }
  if (found.empty()) return folder;
  if (found.size() == 1) return *found.begin();
  std::vector<std::string> named(found.begin(), found.end());
  if (named.size() > kNamedFoldersMax) {
    named.resize(kNamedFoldersMax);
    named.emplace_back("...");
  }
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "{} has folders of ranks in several places: pass one of {}",
                    folder, fmt::join(named, ", "));
}

absl::StatusOr<std::vector<int32_t>> RanksToCompare(
    const TorchairOptions& options,
    const std::map<int32_t, std::string>& golden,
    const std::map<int32_t, std::string>& my, Logger& log) {
  if (options.rank.has_value()) {
    const auto missing = [&options](const char* side) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "Can not get {} data in rank {}", side, *options.rank);
    };
    if (!golden.contains(*options.rank)) return missing("golden");
    if (!my.contains(*options.rank)) return missing("my");
    return std::vector<int32_t>{*options.rank};
  }
  std::vector<int32_t> common;
  for (const auto& [rank, path] : my) {
    if (golden.contains(rank)) {
      common.push_back(rank);
    } else {
      log.Warning(fmt::format("My rank {} not found in golden path", rank));
    }
  }
  for (const auto& [rank, path] : golden) {
    if (my.contains(rank)) continue;
    log.Warning(fmt::format("Golden rank {} not found in my path", rank));
  }
  if (common.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "No common rank data in golden_path and my_path.");
  }
  return common;
}

}  // namespace

std::vector<std::string> FindGraphs(const std::string& folder,
                                    std::optional<int32_t> rank) {
  const std::string of_rank =
      rank.has_value() ? fmt::format("rank_{}_", *rank) : "";
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator at(
      folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    std::error_code ignored;
    if (at.depth() >= kGraphDepthMax) at.disable_recursion_pending();
    const std::string name = at->path().filename().string();
    if (match::IsGraphFile(name) && name.find(of_rank) != std::string::npos &&
        name.find_first_of("0123456789") != std::string::npos &&
        at->is_regular_file(ignored)) {
      out.push_back(at->path().string());
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair(FirstNumber(a), a) < std::pair(FirstNumber(b), b);
  });
  return out;
}

absl::Status CompareTorchair(const TorchairOptions& options,
                             ctl::Interrupts& interrupts, Logger& log) {
  RankOptions rank;
  MSITD_ASSIGN_OR_RETURN(rank.golden, FolderOfRanks(options.golden));
  MSITD_ASSIGN_OR_RETURN(rank.my, FolderOfRanks(options.my));
  rank.output = options.output;
  rank.algorithms = options.algorithms;
  rank.is_compat = options.is_compat;
  rank.is_golden_fx = FindGraphs(options.golden, std::nullopt).empty();
  rank.report_prefix = "msit_cmp_report_";
  const auto my = RankFolders(rank.my, &log);
  if (my.empty()) {
    if (options.rank.has_value()) {
      log.Warning(
          "The directory structure of torchair data is old, the rank "
          "parameter will not take effect.");
    }
    rank.graph_files = FindGraphs(options.my, std::nullopt);
    return RankComparison(std::move(rank), interrupts, log).Run();
  }
  const auto golden = RankFolders(rank.golden, &log);
  MSITD_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                         RanksToCompare(options, golden, my, log));
  for (const int32_t number : ranks) {
    RankOptions of_rank = rank;
    of_rank.golden = golden.at(number);
    of_rank.my = my.at(number);
    of_rank.graph_files = FindGraphs(options.my, number);
    if (of_rank.graph_files.empty()) {
      return MakeStatus(absl::StatusCode::kNotFound,
                        "Can not get ge graph, Please check whether the input "
                        "path contains graph.");
    }
    of_rank.report_prefix = fmt::format("msit_cmp_report_rank{}_", number);
    const absl::Status compared =
        RankComparison(std::move(of_rank), interrupts, log).Run();
    if (!compared.ok())
      return Annotate(compared, fmt::format("rank {}", number));
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit
