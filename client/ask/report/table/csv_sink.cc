// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "client/ask/report/table/sinks.h"
#include "client/ask/text/text.h"

namespace msitd::ask {
namespace {

class CsvSink final : public TableSink {
 public:
  CsvSink(ReportSink sink, bool guards_formulas)
      : sink_(std::move(sink)), guards_formulas_(guards_formulas) {}

  absl::Status Begin(const std::vector<std::string>& headings) override {
    return sink_(CsvLine(headings, guards_formulas_));
  }
  absl::Status Add(const Cells& cells) override {
    std::vector<std::string> fields;
    fields.reserve(cells.size());
    for (const Cell& cell : cells) fields.push_back(TextOf(cell));
    return sink_(CsvLine(fields, guards_formulas_));
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const ReportSink sink_;
  const bool guards_formulas_;
};

}  // namespace

std::unique_ptr<TableSink> MakeCsvSink(ReportSink sink, bool guards_formulas) {
  return std::make_unique<CsvSink>(std::move(sink), guards_formulas);
}

}  // namespace msitd::ask
