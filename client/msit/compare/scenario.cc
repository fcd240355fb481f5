// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/scenario.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "client/msit/compare/torchair.h"
#include "client/msit/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

absl::StatusOr<std::optional<int32_t>> ParseRank(const std::string& text) {
  if (text.empty()) return std::nullopt;
  int32_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rank);
  if (error == std::errc() && stop == end && rank >= 0) return rank;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "--rank: {} is no number of a rank", Quoted(text));
}

absl::StatusOr<bool> IsFolder(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status)) {
    return std::filesystem::is_directory(status);
  }
  return MakeStatus(absl::StatusCode::kNotFound, "{}: no such file", path);
}

}  // namespace

absl::Status CompareSides(const CompareOptions& options,
                          ctl::Interrupts& interrupts, Logger& log) {
  MSITD_ASSIGN_OR_RETURN(const bool is_golden_folder, IsFolder(options.golden));
  MSITD_ASSIGN_OR_RETURN(const bool is_my_folder, IsFolder(options.my));
  MSITD_ASSIGN_OR_RETURN(const std::optional<int32_t> rank,
                         ParseRank(options.rank));
  const std::string golden = AbsolutePath(options.golden);
  const std::string my = AbsolutePath(options.my);
  if (is_my_folder && !FindGraphs(my, std::nullopt).empty()) {
    return CompareTorchair(
        {.golden = golden,
         .my = my,
         .output = AbsolutePath(options.output.empty() ? "." : options.output),
         .rank = rank,
         .is_compat = options.is_compat},
        interrupts, log);
  }
  if (!is_golden_folder && !is_my_folder) {
    return CompareFiles(options, interrupts, log);
  }
  log.Error("cannot parse data path(" + golden +
            "). it is not a atb dump path or a torch dump path.");
  return absl::OkStatus();
}

}  // namespace msitd::msit
