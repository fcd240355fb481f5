// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/torchair.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "client/foreign/match/ge/models.h"
#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/tree.h"
#include "client/msit/compare/rank_comparison.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

namespace fs = std::filesystem;

// The depth at which graphs and folders of ranks are searched for.
constexpr int kGraphDepthMax = 5;
// Folders that a message lists.
constexpr size_t kNamedFoldersMax = 4;

uint64_t FirstNumber(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const size_t digit = name.find_first_of("0123456789");
  if (digit == std::string::npos) return 0;
  return std::strtoull(name.c_str() + digit, nullptr, 10);
}

// Returns the folders of ranks; for each rank, the last one by name.
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
      log->Warning(
          fmt::format("{} is not compared: {} has the same rank", path, name));
    }
    path = folder + "/" + name;
  }
  return out;
}

// Returns the folder at or below `folder` that contains the folders of ranks;
// `folder` if there are none. Returns INVALID_ARGUMENT if several folders
// contain some.
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
  return MakeStatus(
      absl::StatusCode::kInvalidArgument,
      "{} has folders of ranks in several folders: pass one of {}", folder,
      fmt::join(named, ", "));
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

// Returns the number of devices, which are the ranks of a dump without folders
// of ranks.
absl::StatusOr<size_t> CountDevices(const std::string& path,
                                    trees::TreeKind kind) {
  trees::TreeOptions options;
  options.kind = kind;
  options.devices_are_ranks = true;
  MSITD_ASSIGN_OR_RETURN(const auto tree, trees::OpenTree(path, options));
  return tree->ranks().size();
}

// Returns the graphs of the device with this index, if each device has its own.
std::vector<std::string> GraphsOfDevice(const std::vector<std::string>& graphs,
                                        int32_t place, size_t device_count) {
  const auto rank_of = [](const std::string& file) {
    return trees::RankOfGraphText(fs::path(file).filename().string());
  };
  std::set<int64_t> ranks;
  for (const std::string& file : graphs) {
    const auto rank = rank_of(file);
    if (rank.has_value()) ranks.insert(*rank);
  }
  if (ranks.size() != device_count) return graphs;
  const int64_t own = *std::next(ranks.begin(), place);
  std::vector<std::string> out;
  std::copy_if(graphs.begin(), graphs.end(), std::back_inserter(out),
               [&](const std::string& file) {
                 return rank_of(file).value_or(own) == own;
               });
  return out;
}

// Compares dumps without folders of ranks. Several devices are compared in
// order if both sides have the same number.
absl::Status CompareDevices(const RankOptions& options,
                            ask::Interrupts& interrupts, Logger& log) {
  MSITD_ASSIGN_OR_RETURN(const size_t my_count,
                         CountDevices(options.my, trees::TreeKind::kGe));
  if (my_count < 2) return RankComparison(options, interrupts, log).Run();
  const trees::TreeKind kind =
      options.is_golden_fx ? trees::TreeKind::kFx : trees::TreeKind::kGe;
  MSITD_ASSIGN_OR_RETURN(const size_t golden_count,
                         CountDevices(options.golden, kind));
  if (golden_count != my_count) {
    // Devices of GE have numbers.
    if (options.is_golden_fx) {
      log.Warning(fmt::format(
          "{} has {} devices, and {} has {} graphs of FX. It is unknown which "
          "of them correspond: compare one device at a time",
          options.my, my_count, options.golden, golden_count));
    }
    return RankComparison(options, interrupts, log).Run();
  }
  for (size_t i = 0; i < my_count; ++i) {
    const auto place = static_cast<int32_t>(i);
    RankOptions of_device = options;
    of_device.device_rank = place;
    of_device.graph_files =
        GraphsOfDevice(options.graph_files, place, my_count);
    if (!options.is_compat) {
      of_device.report_prefix += fmt::format("rank{}_", place);
    }
    const absl::Status compared =
        RankComparison(std::move(of_device), interrupts, log).Run();
    if (!compared.ok()) {
      return Annotate(compared,
                      fmt::format("device {} of {}", i + 1, my_count));
    }
  }
  return absl::OkStatus();
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
                             ask::Interrupts& interrupts, Logger& log) {
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
    return CompareDevices(rank, interrupts, log);
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

}  // namespace msitd::msit_command
