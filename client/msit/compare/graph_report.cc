// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/graph_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "client/ask/text/text.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/msit/compare/msit_columns.h"
#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kInt8[] = "torch.int8";
constexpr char kComplex[] = "torch.complex";
// Returns the type to which CANN's parser converts one that numpy does not
// have.
std::string ParsedDType(const std::string& dtype) {
  if (dtype == "torch.bfloat16") return "torch.float32";
  if (dtype.starts_with("torch.float8_") || dtype == "torch.hifloat8") {
    return "torch.float64";
  }
  return dtype;
}

constexpr char kShapesDiffer[] = "data shape doesn't match.";

}  // namespace

absl::StatusOr<GraphReport> GraphReport::Make(
    const std::vector<std::string>& headings, bool is_compat) {
  MSITD_ASSIGN_OR_RETURN(RowSpool spool, RowSpool::Make());
  return GraphReport(ask::CsvLine(headings, /*guards_formulas=*/false),
                     is_compat, std::move(spool));
}

void GraphReport::SetOp(int64_t token, std::string_view op,
                        std::string_view file) {
  token_ = token;
  const auto [found, is_new] =
      op_numbers_.try_emplace(std::string(op), ops_.size());
  op_ = found->second;
  if (is_new) ops_.push_back({std::string(op), std::string(file)});
}

absl::Status GraphReport::Add(const ask::Cells& cells) {
  std::vector<std::string> fields;
  fields.reserve(cells.size());
  for (const ask::Cell& cell : cells) fields.push_back(ask::TextOf(cell));
  if (is_compat_) {
    for (const size_t column : {kGoldenDType, kMyDType}) {
      fields[column] = ParsedDType(fields[column]);
    }
  }
  const bool has_real_parts_only = !is_compat_ &&
                                   !fields[kMaxAbsolute].empty() &&
                                   fields[kGoldenDType].starts_with(kComplex);
  if (has_real_parts_only) {
    std::string& reason = fields[kReason];
    reason = report::kRealPartsReason + (reason.empty() ? "" : " " + reason);
  }
  RowSpool::Row row;
  row.token = token_;
  row.op = op_;
  row.one_is_int8 =
      (fields[kGoldenDType] == kInt8) != (fields[kMyDType] == kInt8);
  // npos + 1 is 0.
  row.key = fields[kMyPath].substr(fields[kMyPath].rfind('.') + 1);
  row.shapes_differ = fields[kReason] == kShapesDiffer;
  fields.erase(fields.begin(), fields.begin() + kIdColumns);
  return spool_.Add(std::move(row),
                    ask::CsvLine(fields, /*guards_formulas=*/false));
}

void GraphReport::NumberRows(const OpPlaces& places, int64_t& first_id) {
  std::vector<std::pair<size_t, std::string_view>> order;
  for (const Op& op : ops_) {
    const auto found = places.find(op.name);
    if (found == places.end()) {
      order.emplace_back(0, op.file);
    } else {
      order.emplace_back(found->second + 1, std::string_view());
    }
  }
  std::vector<RowSpool::Row>& rows = spool_.rows();
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return std::tie(a.token, order[a.op]) < std::tie(b.token, order[b.op]);
  });
  for (RowSpool::Row& row : rows) row.id = first_id++;
}

absl::StatusOr<std::string> GraphReport::Save(const std::string& folder,
                                              const std::string& stem,
                                              const OpPlaces& places,
                                              int64_t& first_id,
                                              const TakeOmitted& omit) {
  NumberRows(places, first_id);
  std::vector<RowSpool::Row>& rows = spool_.rows();
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  return WriteReportFile(
      folder, stem, ".csv", [&](const ByteTake& take) -> absl::Status {
        MSITD_RETURN_IF_ERROR(take(header_));
        std::string line;
        // msit removes rows from the list while it iterates over it, so it
        // skips the row after each removed row.
        bool was_removed = false;
        for (const RowSpool::Row& row : rows) {
          MSITD_RETURN_IF_ERROR(spool_.Read(row, line));
          // msit does not add these rows to the list at all.
          const bool was_dropped = is_compat_ && row.shapes_differ;
          if (!was_dropped) {
            was_removed = is_compat_ && row.one_is_int8 && !was_removed;
          }
          if (was_dropped || was_removed) {
            MSITD_RETURN_IF_ERROR(omit(row.token, line));
            continue;
          }
          line.insert(0, fmt::format("{},{},", row.token, row.id));
          MSITD_RETURN_IF_ERROR(take(line));
        }
        return absl::OkStatus();
      });
}

}  // namespace msitd::msit_command
