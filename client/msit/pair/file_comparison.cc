// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/file_comparison.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/report/table/cell.h"
#include "client/msit/pair/custom_algorithms.h"
#include "client/msit/pair/private_comparison.h"
#include "client/msit/table/report_row.h"
#include "client/msit/tensor/tensor.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kOp[] = "tensor";
constexpr std::string_view kReason = "cmp_fail_reason";

std::string PythonText(const ask::Cell& cell) {
  const std::string text = ask::TextOf(cell);
  // The report writes NaN as an empty cell.
  return text.empty() ? "nan" : text;
}

// The metrics of a row of msit's report, or the reason why there are none.
class Dictionary {
 public:
  explicit Dictionary(const ReportRow& row) : reason_(row.reason()) {
    if (!reason_.empty()) return;
    for (const std::string_view column : kMetricColumns) {
      Add(column, PythonText(row.At(column)));
    }
  }

  bool has_metrics() const { return !text_.empty(); }

  // Adds the result of a user function.
  void Add(const std::string& name, const ask::PairAnswer& answer) {
    if (!answer.shown.empty()) Add(name, answer.shown);
    if (answer.text.empty()) return;
    if (!reason_.empty()) reason_ += ' ';
    reason_ += answer.text;
  }

  std::string text() const {
    return fmt::format("{{{}{}: {}}}", text_, Quoted(kReason), Quoted(reason_));
  }

 private:
  void Add(std::string_view name, std::string_view value) {
    text_ += fmt::format("{}: {}, ", Quoted(name), value);
  }

  std::string text_;
  std::string reason_;
};

}  // namespace

absl::Status CompareFiles(const CompareOptions& options,
                          ask::Interrupts& interrupts, Logger& log) {
  if (!options.rank.empty()) {
    log.Warning("--rank has no effect for two files and is ignored");
  }
  MSITD_ASSIGN_OR_RETURN(
      CustomAlgorithms algorithms,
      CustomAlgorithms::Start(options.algorithms, interrupts, log));
  using Side = PrivateComparison::Side;
  std::unique_ptr<PrivateComparison> runs;
  bool is_golden_empty = false;
  for (const auto& [side, path] : {std::pair(Side::kGolden, options.golden),
                                   std::pair(Side::kMy, options.my)}) {
    MSITD_ASSIGN_OR_RETURN(const Tensor tensor, ReadTensor(path));
    const bool is_empty = ElementCount(tensor.shape) == 0;
    if (is_golden_empty && is_empty) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} and {}: their tensors have no elements",
                        options.golden, options.my);
    }
    is_golden_empty = is_empty;
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
  Dictionary dictionary(row);
  if (dictionary.has_metrics() && !options.algorithms.empty()) {
    // These were read before without holding both.
    MSITD_ASSIGN_OR_RETURN(const Tensor golden, ReadTensor(options.golden));
    MSITD_ASSIGN_OR_RETURN(const Tensor my, ReadTensor(options.my));
    MSITD_ASSIGN_OR_RETURN(const std::vector<ask::PairAnswer> answers,
                           algorithms.Measure(golden, my));
    const std::vector<std::string> names = algorithms.names();
    for (size_t i = 0; i < names.size(); ++i) {
      dictionary.Add(names[i], answers[i]);
    }
  }
  log.Info("Compared results: " + dictionary.text());
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
