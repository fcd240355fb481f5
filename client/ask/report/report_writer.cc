// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/report_writer.h"

#include <utility>

#include "client/ask/report/table/table.h"
#include "client/ask/text/json_text.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

class TableReport final : public ReportWriter {
 public:
  TableReport(std::unique_ptr<TableSchema> schema,
              std::unique_ptr<TableSink> table)
      : schema_(std::move(schema)), table_(std::move(table)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    return table_->Begin(schema_->Begin(comparison));
  }
  absl::Status Add(const v1::ComparisonRow& row) override {
    return schema_->Add(row, *table_);
  }
  absl::StatusOr<std::string> Finish() override {
    MSITD_ASSIGN_OR_RETURN(std::string note, schema_->Finish(*table_));
    MSITD_RETURN_IF_ERROR(table_->Finish());
    return note;
  }

 private:
  const std::unique_ptr<TableSchema> schema_;
  const std::unique_ptr<TableSink> table_;
};

class MessageReport final : public ReportWriter {
 public:
  explicit MessageReport(ReportSink sink) : sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    return sink_(ToJson(comparison, false) + '\n');
  }
  absl::Status Add(const v1::ComparisonRow& row) override {
    return sink_(ToJson(row, false) + '\n');
  }
  absl::StatusOr<std::string> Finish() override { return ""; }

 private:
  const ReportSink sink_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeTableReport(
    std::unique_ptr<TableSchema> schema, std::unique_ptr<TableSink> table) {
  return std::make_unique<TableReport>(std::move(schema), std::move(table));
}

std::unique_ptr<ReportWriter> MakeMessageReport(ReportSink sink) {
  return std::make_unique<MessageReport>(std::move(sink));
}

}  // namespace msitd::ask
