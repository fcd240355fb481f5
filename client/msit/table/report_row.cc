// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/report_row.h"

#include <cmath>
#include <utility>
#include <vector>

#include "client/ask/report/table/table.h"
#include "client/foreign/report/foreign_schemas.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// Receives the only row of a report.
class RowTaker final : public ask::TableSink {
 public:
  absl::Status Begin(const std::vector<std::string>& headings) override {
    headings_ = headings;
    return absl::OkStatus();
  }
  absl::Status Add(const ask::Cells& cells) override {
    for (size_t i = 0; i < headings_.size(); ++i) {
      cells_[headings_[i]] = cells[i];
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

  std::map<std::string, ask::Cell, std::less<>> Take() {
    return std::move(cells_);
  }

 private:
  std::vector<std::string> headings_;
  std::map<std::string, ask::Cell, std::less<>> cells_;
};

}  // namespace

ask::Cell ReportRow::At(std::string_view column) const {
  const auto found = cells_.find(column);
  return found == cells_.end() ? ask::Cell() : found->second;
}

double ReportRow::NumberAt(std::string_view column) const {
  const ask::Cell cell = At(column);
  const auto* number = std::get_if<ask::Real>(&cell);
  return number == nullptr ? NAN : number->value;
}

std::string ReportRow::reason() const {
  return ask::TextOf(At("cmp_fail_reason"));
}

absl::StatusOr<ReportRow> MakeReportRow(const v1::Comparison& comparison,
                                        const v1::ComparisonRow& row) {
  const auto schema = report::MakeMsitSchema(/*keeps_all=*/true);
  RowTaker taker;
  MSITD_RETURN_IF_ERROR(taker.Begin(schema->Begin(comparison)));
  MSITD_RETURN_IF_ERROR(schema->Add(row, taker));
  auto cells = taker.Take();
  if (cells.empty()) {
    return MakeStatus(absl::StatusCode::kInternal, "nothing was compared");
  }
  return ReportRow(std::move(cells));
}

}  // namespace msitd::msit_command
