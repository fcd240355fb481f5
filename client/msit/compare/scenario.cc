// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/scenario.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "client/ask/text/policy_text.h"
#include "client/foreign/match/limits.h"
#include "client/msit/compare/dump_side.h"
#include "client/msit/compare/level_report.h"
#include "client/msit/compare/side_checks.h"
#include "client/msit/compare/torchair.h"
#include "client/msit/pair/custom_algorithms.h"
#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kOpMappingFile[] = "op_mapping_file.json";

absl::StatusOr<std::optional<int32_t>> ParseRank(const std::string& text) {
  if (text.empty()) return std::nullopt;
  int32_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rank);
  if (error == std::errc() && stop == end && rank >= 0) return rank;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "--rank: {} is not the number of a rank", Quoted(text));
}

std::string OutputOf(const CompareOptions& options) {
  return AbsolutePath(options.output.empty() ? "." : options.output);
}

absl::StatusOr<bool> IsFolder(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status)) {
    return std::filesystem::is_directory(status);
  }
  return MakeStatus(absl::StatusCode::kNotFound, "{}: no such file", path);
}

// Returns the bytes of the user's op_mapping_file.json.
absl::StatusOr<std::string> ReadOpMapping(const std::string& folder) {
  if (folder.empty()) return "";
  return ask::ReadTextFile(folder + "/" + kOpMappingFile,
                           match::kOpMappingBytesMax);
}

// Reports flags that have no effect on the comparison of statistics.
void TellOfStatisticsFlags(const CompareOptions& options, Logger& log) {
  for (const auto& [is_set, flag] :
       {std::pair(!options.algorithms.empty(), "--custom-algorithms"),
        std::pair(!options.level.empty(), "--cmp-level")}) {
    if (!is_set) continue;
    log.Warning(
        fmt::format("{} has no effect with --stats and is ignored", flag));
  }
}

absl::Status CompareDumps(const CompareOptions& options,
                          const std::string& golden, const std::string& my,
                          CustomAlgorithms& algorithms,
                          ask::Interrupts& interrupts, Logger& log) {
  const auto find = [&log](const std::string& path) {
    const auto side = FindDumpSide(path);
    if (!side.has_value()) {
      log.Error("cannot parse data path(" + path +
                "). it is not a atb dump path or a torch dump path.");
    }
    return side;
  };
  const auto golden_side = find(golden);
  const auto my_side = find(my);
  if (!golden_side.has_value() || !my_side.has_value()) return absl::OkStatus();
  LevelOptions levels;
  levels.golden = *golden_side;
  levels.my = *my_side;
  levels.level = options.level;
  levels.output = OutputOf(options);
  levels.algorithms = &algorithms;
  levels.compares_statistics = options.compares_statistics;
  levels.is_compat = options.is_compat;
  MSITD_ASSIGN_OR_RETURN(levels.op_mapping,
                         ReadOpMapping(options.mapping_folder));
  return CompareLevels(levels, interrupts, log);
}

}  // namespace

absl::Status CompareSides(const CompareOptions& options,
                          ask::Interrupts& interrupts, Logger& log) {
  MSITD_ASSIGN_OR_RETURN(const bool is_golden_folder, IsFolder(options.golden));
  MSITD_ASSIGN_OR_RETURN(const bool is_my_folder, IsFolder(options.my));
  MSITD_ASSIGN_OR_RETURN(const std::optional<int32_t> rank,
                         ParseRank(options.rank));
  const std::string golden = AbsolutePath(options.golden);
  const std::string my = AbsolutePath(options.my);
  if (!is_golden_folder && !is_my_folder) {
    return CompareFiles(options, interrupts, log);
  }
  if (is_golden_folder && is_my_folder) {
    MSITD_RETURN_IF_ERROR(CheckSides(golden, my));
  }
  MSITD_RETURN_IF_ERROR(
      Annotate(CheckReportFolder(OutputOf(options)), "--output"));
  MSITD_ASSIGN_OR_RETURN(
      CustomAlgorithms algorithms,
      CustomAlgorithms::Start(options.algorithms, interrupts, log));
  if (is_my_folder && !FindGraphs(my, std::nullopt).empty()) {
    if (options.compares_statistics) {
      log.Warning("--stats has no effect for dumps of TorchAir and is ignored");
    }
    return CompareTorchair({.golden = golden,
                            .my = my,
                            .output = OutputOf(options),
                            .rank = rank,
                            .algorithms = &algorithms,
                            .is_compat = options.is_compat},
                           interrupts, log);
  }
  if (options.compares_statistics) {
    TellOfStatisticsFlags(options, log);
  }
  return CompareDumps(options, golden, my, algorithms, interrupts, log);
}

}  // namespace msitd::msit_command
