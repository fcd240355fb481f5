// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/probe_workbook.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/ask/report/table/cell.h"
#include "client/ask/report/table/sinks.h"
#include "client/ask/report/table/table.h"

namespace msitd::msit_command {
namespace {

constexpr char kSheet[] = "Sheet1";
constexpr std::string_view kAgreement = "Requires_grad Consistent";
constexpr std::array<std::string_view, 8> kDifferences = {
    "Max diff",       "Min diff",       "Mean diff",       "L2norm diff",
    "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"};

enum class ColumnKind { kPlain, kText, kTruth };

ask::Cell Converted(const ask::Cell& cell, ColumnKind kind) {
  if (kind == ColumnKind::kText) return ask::TextOf(cell);
  if (kind == ColumnKind::kTruth) {
    const std::string text = ask::TextOf(cell);
    if (text == "True" || text == "False") {
      return ask::Truth{text == "True", /*is_python=*/true};
    }
    return cell;
  }
  if (std::holds_alternative<ask::Truth>(cell)) return ask::TextOf(cell);
  const auto* const real = std::get_if<ask::Real>(&cell);
  if (real != nullptr && std::isinf(real->value)) {
    return ask::PythonFloat(real->value);
  }
  return cell;
}

class ProbeWorkbook final : public ask::TableSink {
 public:
  ProbeWorkbook(std::unique_ptr<ask::TableSink> sheets, bool is_summary)
      : sheets_(std::move(sheets)), is_summary_(is_summary) {}

  absl::Status Begin(const std::vector<std::string>& headings) override {
    kinds_.clear();
    for (const std::string& heading : headings) {
      const bool is_difference =
          is_summary_ && std::find(kDifferences.begin(), kDifferences.end(),
                                   heading) != kDifferences.end();
      kinds_.push_back(is_difference           ? ColumnKind::kText
                       : heading == kAgreement ? ColumnKind::kTruth
                                               : ColumnKind::kPlain);
    }
    return sheets_->Begin(headings);
  }

  absl::Status Add(const ask::Cells& cells) override {
    ask::Cells converted;
    converted.reserve(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      converted.push_back(Converted(
          cells[i], i < kinds_.size() ? kinds_[i] : ColumnKind::kPlain));
    }
    return sheets_->Add(converted);
  }

  absl::Status Finish() override { return sheets_->Finish(); }

 private:
  const std::unique_ptr<ask::TableSink> sheets_;
  const bool is_summary_;
  std::vector<ColumnKind> kinds_;
};

}  // namespace

std::unique_ptr<ask::TableSink> MakeProbeWorkbook(
    std::function<absl::Status(std::string_view)> sink, bool is_summary) {
  return std::make_unique<ProbeWorkbook>(
      ask::MakeXlsxSheetsSink(std::move(sink), {kSheet}), is_summary);
}

}  // namespace msitd::msit_command
