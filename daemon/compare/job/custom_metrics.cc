// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/custom_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/judge/row_metrics.h"
#include "protos/base/report_column.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using AddedMetrics = v1::AddRowMetricsRequest::RowMetrics;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

absl::Status CheckMetric(const std::string& field,
                         const v1::CustomMetric& metric) {
  const std::string& name = metric.metric();
  if (name.empty() || name.size() > kCustomMetricNameBytesMax ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return FieldInvalid(
        field + ".metric",
        fmt::format("not 1 to {} letters, digits, '_', '.' and '-'",
                    kCustomMetricNameBytesMax));
  }
  const auto ours = MetricNames();
  if (std::find(ours.begin(), ours.end(), name) != ours.end()) {
    return FieldInvalid(
        field + ".metric",
        fmt::format("'{}' is a metric that the daemon measures", name));
  }
  if (IsReportColumn(name)) {
    return FieldInvalid(field + ".metric",
                        fmt::format("'{}' is a column of reports", name));
  }
  if (metric.text().size() > kCustomMetricTextBytesMax) {
    return FieldInvalid(
        field + ".text",
        fmt::format("{} bytes, at most {} are taken", metric.text().size(),
                    kCustomMetricTextBytesMax));
  }
  return absl::OkStatus();
}

absl::Status CheckRow(const std::string& field, const AddedMetrics& row) {
  if (row.metrics_size() > kCustomMetricsMax) {
    return FieldInvalid(field + ".metrics",
                        fmt::format("{} of them, at most {} are taken",
                                    row.metrics_size(), kCustomMetricsMax));
  }
  std::set<std::string_view> names;
  for (int i = 0; i < row.metrics_size(); ++i) {
    const std::string at = fmt::format("{}.metrics[{}]", field, i);
    MSITD_RETURN_IF_ERROR(CheckMetric(at, row.metrics(i)));
    if (!names.insert(row.metrics(i).metric()).second) {
      return FieldInvalid(at + ".metric", "is there twice");
    }
  }
  return absl::OkStatus();
}

// Adds the metrics of `added` to `row`, replacing those of the same name.
absl::Status AddToRow(const AddedMetrics& added, v1::ComparisonRow& row) {
  for (const v1::CustomMetric& metric : added.metrics()) {
    auto& all = *row.mutable_custom_metrics();
    const auto same =
        std::find_if(all.begin(), all.end(), [&metric](const auto& other) {
          return other.metric() == metric.metric();
        });
    if (same != all.end()) {
      *same = metric;
    } else if (all.size() < kCustomMetricsMax) {
      *all.Add() = metric;
    } else {
      return FieldInvalid(fmt::format("rows: row {}", added.row()),
                          fmt::format("has {} metrics of others, as many as "
                                      "there may be",
                                      kCustomMetricsMax));
    }
  }
  return absl::OkStatus();
}

// Returns the rows that the comparison message itself contains.
std::vector<v1::ComparisonRow*> ShownRows(v1::Comparison& comparison) {
  std::vector<v1::ComparisonRow*> rows;
  if (comparison.has_first_divergence()) {
    rows.push_back(comparison.mutable_first_divergence());
  }
  if (comparison.has_first_origin()) {
    rows.push_back(comparison.mutable_first_origin());
  }
  if (comparison.has_first_inequality()) {
    rows.push_back(comparison.mutable_first_inequality());
  }
  if (comparison.has_first_non_finite()) {
    rows.push_back(comparison.mutable_first_non_finite());
  }
  if (comparison.has_first_unmatched()) {
    rows.push_back(comparison.mutable_first_unmatched());
  }
  if (comparison.has_input_difference()) {
    rows.push_back(comparison.mutable_input_difference()->mutable_row());
  }
  for (v1::ComparisonRow& row : *comparison.mutable_concurrent_divergences()) {
    rows.push_back(&row);
  }
  for (v1::Maker& maker : *comparison.mutable_makers()) {
    rows.push_back(maker.mutable_row());
  }
  return rows;
}

absl::Status AddToComparison(const RowMetricsList& rows,
                             v1::Comparison& comparison) {
  auto& names = *comparison.mutable_custom_metrics();
  for (const AddedMetrics& row : rows) {
    for (const v1::CustomMetric& metric : row.metrics()) {
      if (std::find(names.begin(), names.end(), metric.metric()) ==
          names.end()) {
        *names.Add() = metric.metric();
      }
    }
    for (v1::ComparisonRow* shown : ShownRows(comparison)) {
      if (shown->row() != row.row()) continue;
      MSITD_RETURN_IF_ERROR(AddToRow(row, *shown));
    }
  }
  if (names.size() <= kCustomMetricsMax) return absl::OkStatus();
  return FieldInvalid(
      "rows", fmt::format("the comparison would have {} metrics of others, at "
                          "most {} may be",
                          names.size(), kCustomMetricsMax));
}

// Rows with new metrics that are at most this far apart are rewritten together,
// because the store rewrites neighboring rows anyway.
constexpr int64_t kStretchGapMax = 16;

// Consecutive rows to store.
struct Stretch {
  uint64_t first_row = 0;
  std::vector<std::string> rows;
};

// Returns the stored rows from `added.front()` to `added.back()`, with the
// metrics added. `added` is in ascending order and not empty.
absl::StatusOr<Stretch> Rewrite(storage::Comparisons& store, uint64_t id,
                                std::span<const AddedMetrics* const> added) {
  Stretch out;
  out.first_row = added.front()->row();
  const int64_t count = added.back()->row() - added.front()->row() + 1;
  MSITD_ASSIGN_OR_RETURN(out.rows,
                         store.GetComparisonRows(id, out.first_row, count));
  for (const AddedMetrics* const metrics : added) {
    const uint64_t i = metrics->row() - out.first_row;
    v1::ComparisonRow row;
    if (i >= out.rows.size() || !row.ParseFromString(out.rows[i])) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "comparison {}: row {} cannot be read",
                        FormatComparisonName(id), metrics->row());
    }
    MSITD_RETURN_IF_ERROR(AddToRow(*metrics, row));
    out.rows[i] = row.SerializeAsString();
  }
  return out;
}

}  // namespace

absl::Status CheckRowMetrics(const RowMetricsList& rows) {
  if (rows.size() > kCustomMetricRowsMax) {
    return FieldInvalid("rows", fmt::format("{} of them, at most {} are taken",
                                            rows.size(), kCustomMetricRowsMax));
  }
  for (int i = 0; i < rows.size(); ++i) {
    const std::string field = fmt::format("rows[{}]", i);
    if (rows[i].row() < 0 || (i > 0 && rows[i].row() <= rows[i - 1].row())) {
      return FieldInvalid(field + ".row",
                          fmt::format("{} does not ascend", rows[i].row()));
    }
    MSITD_RETURN_IF_ERROR(CheckRow(field, rows[i]));
  }
  return absl::OkStatus();
}

absl::Status StoreRowMetrics(storage::Comparisons& store, uint64_t id,
                             const RowMetricsList& rows,
                             v1::Comparison& comparison) {
  if (rows.empty()) return absl::OkStatus();
  const int64_t row_count = RowCount(comparison);
  if (const int64_t last = rows[rows.size() - 1].row(); last >= row_count) {
    return FieldInvalid(fmt::format("rows[{}].row", rows.size() - 1),
                        fmt::format("{} is none of {} rows", last, row_count));
  }
  MSITD_RETURN_IF_ERROR(AddToComparison(rows, comparison));
  std::vector<const AddedMetrics*> added;
  std::vector<Stretch> stretches;
  for (int i = 0; i < rows.size(); ++i) {
    added.push_back(&rows[i]);
    if (i + 1 < rows.size() &&
        rows[i + 1].row() - rows[i].row() <= kStretchGapMax) {
      continue;
    }
    MSITD_ASSIGN_OR_RETURN(stretches.emplace_back(), Rewrite(store, id, added));
    added.clear();
  }
  for (const Stretch& stretch : stretches) {
    MSITD_RETURN_IF_ERROR(
        store.PutComparisonRows(id, stretch.first_row, stretch.rows));
  }
  return store.PutComparison(id, comparison.SerializeAsString());
}

}  // namespace msitd::compare
