// SPDX-License-Identifier: Apache-2.0
#include "client/msit/file_comparison.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/msit/private_comparison.h"
#include "client/msit/report_row.h"
#include "client/msit/tensor.h"
#include "client/report/table/cell.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

constexpr char kOp[] = "tensor";
constexpr std::string_view kReason = "cmp_fail_reason";

std::string PythonText(const ctl::Cell& cell) {
  const std::string text = ctl::TextOf(cell);
  // The report leaves NaN empty.
  return text.empty() ? "nan" : text;
}

// The metrics of a row of msit's report, and its reason if there are none.
std::string DictionaryOf(const ReportRow& row) {
  const std::string reason = row.reason();
  std::string out = "{";
  if (reason.empty()) {
    for (const std::string_view column : kMetricColumns) {
      out +=
          fmt::format("{}: {}, ", Quoted(column), PythonText(row.At(column)));
    }
  }
  return out + fmt::format("{}: {}}}", Quoted(kReason), Quoted(reason));
}

absl::Status CheckPaths(const CompareOptions& options) {
  int folder_count = 0;
  for (const std::string& path : {options.golden, options.my}) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) {
      return MakeStatus(absl::StatusCode::kNotFound, "{}: no such file", path);
    }
    folder_count += std::filesystem::is_directory(status) ? 1 : 0;
  }
  if (folder_count > 0) {
    return MakeStatus(
        absl::StatusCode::kUnimplemented,
        "msit llm compare takes two files in this build; record folders as "
        "runs and use msitctl compare run GOLDEN TARGET --preset msit, then "
        "msitctl compare report --format msit");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CompareFiles(const CompareOptions& options,
                          ctl::Interrupts& interrupts, Logger& log) {
  MSITD_RETURN_IF_ERROR(CheckPaths(options));
  if (!options.rank.empty()) {
    log.Warning("--rank means nothing for two files, and is ignored");
  }
  using Side = PrivateComparison::Side;
  std::unique_ptr<PrivateComparison> runs;
  for (const auto& [side, path] : {std::pair(Side::kGolden, options.golden),
                                   std::pair(Side::kMy, options.my)}) {
    MSITD_ASSIGN_OR_RETURN(const Tensor tensor, ReadTensor(path));
    if (ElementCount(tensor.shape) == 0) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{}: its tensor has no elements", path);
    }
    if (runs == nullptr) {
      MSITD_ASSIGN_OR_RETURN(runs, PrivateComparison::Start(interrupts));
    }
    const absl::Status recorded = runs->Record(side, kOp, tensor);
    if (!recorded.ok()) return Annotate(recorded, path);
  }
  MSITD_ASSIGN_OR_RETURN(const PrivateComparison::Result result,
                         runs->Compare());
  if (result.rows.size() != 1) {
    return MakeStatus(absl::StatusCode::kInternal, "{} rows of one pair",
                      result.rows.size());
  }
  MSITD_ASSIGN_OR_RETURN(const ReportRow row,
                         MakeReportRow(result.comparison, result.rows.front()));
  log.Info("Compared results: " + DictionaryOf(row));
  return absl::OkStatus();
}

}  // namespace msitd::msit
