// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/report_row.h"

#include <cmath>
#include <utility>
#include <vector>

#include "client/report/schema/schemas.h"
#include "client/report/table/table.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

// Takes the one row of a report.
class RowTaker final : public ctl::TableSink {
 public:
  absl::Status Begin(const std::vector<std::string>& headings) override {
    headings_ = headings;
    return absl::OkStatus();
  }
  absl::Status Add(const ctl::Cells& cells) override {
    for (size_t i = 0; i < headings_.size(); ++i) {
      cells_[headings_[i]] = cells[i];
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

  std::map<std::string, ctl::Cell, std::less<>> Take() {
    return std::move(cells_);
  }

 private:
  std::vector<std::string> headings_;
  std::map<std::string, ctl::Cell, std::less<>> cells_;
};

}  // namespace

ctl::Cell ReportRow::At(std::string_view column) const {
  const auto found = cells_.find(column);
  return found == cells_.end() ? ctl::Cell() : found->second;
}

double ReportRow::NumberAt(std::string_view column) const {
  const ctl::Cell cell = At(column);
  const auto* number = std::get_if<ctl::Real>(&cell);
  return number == nullptr ? NAN : number->value;
}

std::string ReportRow::reason() const {
  return ctl::TextOf(At("cmp_fail_reason"));
}

absl::StatusOr<ReportRow> MakeReportRow(const v1::Comparison& comparison,
                                        const v1::ComparisonRow& row) {
  const auto schema = ctl::MakeMsitSchema(/*keeps_all=*/true);
  RowTaker taker;
  MSITD_RETURN_IF_ERROR(taker.Begin(schema->Begin(comparison)));
  MSITD_RETURN_IF_ERROR(schema->Add(row, taker));
  auto cells = taker.Take();
  if (cells.empty()) {
    return MakeStatus(absl::StatusCode::kInternal, "nothing was compared");
  }
  return ReportRow(std::move(cells));
}

}  // namespace msitd::msit
