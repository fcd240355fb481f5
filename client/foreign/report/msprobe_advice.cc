// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>
#include <utility>

#include "client/ask/text/maker_text.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_colors.h"
#include "protos/status/status.h"

namespace msitd::report {
namespace {

// Discards the rows, which only on_row needs.
class NoTable final : public ask::TableSink {
 public:
  absl::Status Begin(const std::vector<std::string>& /*headings*/) override {
    return absl::OkStatus();
  }
  absl::Status Add(const ask::Cells& /*cells*/) override {
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
};

class AdviceReport final : public ask::ReportWriter {
 public:
  AdviceReport(MsprobeReport report, ask::ReportSink sink)
      : rules_(report.rules), mode_(report.mode), sink_(std::move(sink)) {
    report.on_row = [this](const MsprobeRow& row) { Look(row); };
    schema_ = MakeMsprobeSchema(std::move(report));
  }

  absl::Status Begin(const v1::Comparison& comparison) override {
    schema_->Begin(comparison);
    has_order_ = ask::HasOrder(comparison);
    return absl::OkStatus();
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    return schema_->Add(row, table_);
  }

  absl::StatusOr<std::string> Finish() override {
    MSITD_ASSIGN_OR_RETURN(std::string note, schema_->Finish(table_));
    MSITD_RETURN_IF_ERROR(sink_(Text()));
    return note;
  }

 private:
  void Look(const MsprobeRow& row) {
    if (leaf_.empty() && !row.is_ignored && IsInaccurate(row, mode_, rules_)) {
      leaf_ = row.name;
      line_ = row_count_;
    }
    ++row_count_;
  }

  std::string Text() const {
    if (leaf_.empty()) {
      return "Line: NA\nSuspect Nodes: NA\nExpert Advice: No row of the "
             "report fails.\n";
    }
    if (!has_order_) {
      return "Line: NA\n"
             "Suspect Nodes: NA\n"
             "Expert Advice: Rows fail, but a run does not record in which "
             "order its tensors were computed, so it is unknown which row "
             "failed first.\n";
    }
    return fmt::format("Line: {}\nSuspect Nodes: {}\nExpert Advice: {}\n",
                       line_, leaf_, AdviceFor(leaf_, rules_));
  }

  const MsprobeRules rules_;
  const MsprobeMode mode_;
  const ask::ReportSink sink_;
  NoTable table_;
  std::unique_ptr<ask::TableSchema> schema_;
  size_t row_count_ = 0;
  std::string leaf_;  // The first row that fails.
  size_t line_ = 0;
  bool has_order_ = true;
};

}  // namespace

std::unique_ptr<ask::ReportWriter> MakeAdviceReport(MsprobeReport report,
                                                    ask::ReportSink sink) {
  return std::make_unique<AdviceReport>(std::move(report), std::move(sink));
}

}  // namespace msitd::report
