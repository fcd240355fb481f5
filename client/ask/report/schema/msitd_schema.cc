// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/schema/msitd_schema.h"

#include <string_view>
#include <utility>

#include "client/ask/report/schema/row_fields.h"
#include "client/ask/text/policy_text.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::ask {
namespace {

constexpr std::string_view kHeadings[] = {
    "row",           "rank",         "token",         "op",
    "call",          "io",           "index",         "verdict",
    "reason",        "origin",       "golden_dtype",  "golden_shape",
    "golden_min",    "golden_max",   "golden_mean",   "target_dtype",
    "target_shape",  "target_min",   "target_max",    "target_mean",
    "bitwise_equal", "predicate",    "amplification", "for_want_of_ranks",
    "layout_hint",   "pairing",      "golden_kind",   "golden_value",
    "target_kind",   "target_value", "golden_view",   "target_view",
    "request"};

Cell OptionalReal(bool has, double value) {
  return has ? Cell(Real{value}) : Cell();
}

void AddSide(bool has, const v1::ComparedTensor& side, Cells& cells) {
  constexpr size_t kColumns = 5;
  if (!has) {
    cells.resize(cells.size() + kColumns);
    return;
  }
  cells.emplace_back(std::string(DTypeName(static_cast<DType>(side.dtype()))));
  cells.emplace_back(PythonShape(side));
  cells.push_back(OptionalReal(side.has_min(), side.min()));
  cells.push_back(OptionalReal(side.has_max(), side.max()));
  cells.push_back(OptionalReal(side.has_mean(), side.mean()));
}

void AddKind(bool has, const v1::ComparedTensor& side, Cells& cells) {
  cells.push_back(has ? Cell(std::string(RecordKindName(
                            static_cast<RecordKind>(side.kind()))))
                      : Cell());
  cells.push_back(side.value().empty() ? Cell() : Cell(side.value()));
}

class MsitdSchema final : public TableSchema {
 public:
  explicit MsitdSchema(std::vector<std::string> metrics)
      : metrics_(std::move(metrics)) {}

  std::vector<std::string> Begin(const v1::Comparison& comparison) override {
    comparison_ = comparison;
    std::vector<std::string> headings(std::begin(kHeadings),
                                      std::end(kHeadings));
    headings.insert(headings.end(), metrics_.begin(), metrics_.end());
    AddCustomHeadings(comparison, headings);
    return headings;
  }

  absl::Status Add(const v1::ComparisonRow& row, TableSink& table) override {
    Cells cells = {
        row.row(),           int64_t{row.rank()},
        row.token(),         row.op(),
        int64_t{row.call()}, std::string(IoName(static_cast<Io>(row.io()))),
        row.index(),         WordOf(v1::Verdict_Name(row.verdict())),
        row.reason(),        OriginText(row)};
    AddSide(row.has_golden(), row.golden(), cells);
    AddSide(row.has_target(), row.target(), cells);
    cells.emplace_back(Truth{row.bitwise_equal()});
    cells.emplace_back(row.predicate());
    cells.push_back(OptionalReal(row.has_amplification(), row.amplification()));
    cells.emplace_back(Truth{row.for_want_of_ranks()});
    cells.emplace_back(row.layout_hint());
    cells.emplace_back(row.pairing());
    AddKind(row.has_golden(), row.golden(), cells);
    AddKind(row.has_target(), row.target(), cells);
    cells.emplace_back(row.golden().view());
    cells.emplace_back(row.target().view());
    cells.emplace_back(row.request());
    for (const std::string& metric : metrics_) {
      const auto value = MetricOf(row, metric);
      cells.push_back(OptionalReal(value.has_value(), value.value_or(0)));
    }
    AddCustomCells(comparison_, row, RealStyle::kShortest, cells);
    return table.Add(cells);
  }

  absl::StatusOr<std::string> Finish(TableSink& /*table*/) override {
    return "";
  }

 private:
  const std::vector<std::string> metrics_;
  v1::Comparison comparison_;
};

}  // namespace

std::unique_ptr<TableSchema> MakeMsitdSchema(std::vector<std::string> metrics) {
  return std::make_unique<MsitdSchema>(std::move(metrics));
}

}  // namespace msitd::ask
