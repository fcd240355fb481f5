// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "client/report/table/sinks.h"
#include "client/text/text.h"

namespace msitd::ctl {
namespace {

class CsvSink final : public TableSink {
 public:
  CsvSink(ReportSink sink, bool guards_formulas)
      : sink_(std::move(sink)), guards_formulas_(guards_formulas) {}

  absl::Status Begin(const std::vector<std::string>& headings) override {
    return AddLine(headings, [](const std::string& text) { return text; });
  }
  absl::Status Add(const Cells& cells) override {
    return AddLine(cells, TextOf);
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  template <typename Fields, typename Text>
  absl::Status AddLine(const Fields& fields, Text text_of) const {
    std::string line;
    for (const auto& field : fields) {
      std::string text = text_of(field);
      if (guards_formulas_) text = GuardFormula(std::move(text));
      line += CsvField(text);
      line += ',';
    }
    line.back() = '\n';
    return sink_(line);
  }

  const ReportSink sink_;
  const bool guards_formulas_;
};

}  // namespace

std::unique_ptr<TableSink> MakeCsvSink(ReportSink sink, bool guards_formulas) {
  return std::make_unique<CsvSink>(std::move(sink), guards_formulas);
}

}  // namespace msitd::ctl
