// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/sorted_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "client/ask/report/schema/row_fields.h"
#include "client/ask/text/nearest.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The order of rows.
struct Order {
  std::string metric;
  bool is_custom = false;
  bool higher_is_better = false;
};

struct Entry {
  int rank;        // 2 for NaN, 1 for a number, 0 for a row without the metric.
  double badness;  // For a number.
  v1::ComparisonRow row;
};

// Orders worse rows first, and equal ones in their original order.
bool IsWorse(const Entry& a, const Entry& b) {
  if (a.rank != b.rank) return a.rank > b.rank;
  if (a.badness != b.badness) return a.badness > b.badness;
  return a.row.row() < b.row.row();
}

Entry EntryOf(const v1::ComparisonRow& row, const Order& order) {
  std::optional<double> value;
  if (order.is_custom) {
    const v1::CustomMetric* custom = ask::CustomMetricOf(row, order.metric);
    if (custom != nullptr && custom->has_value()) value = custom->value();
  } else {
    value = ask::MetricOf(row, order.metric);
  }
  if (!value.has_value()) return {0, -kInfinity, row};
  if (std::isnan(*value)) return {2, kInfinity, row};
  return {1, order.higher_is_better ? -*value : *value, row};
}

ask::Outcome FindOrder(Invocation& invocation, const v1::Comparison& comparison,
                       const std::string& name, Order& order) {
  std::vector<v1::Metric> metrics;
  MSITCTL_RETURN_IF_FAILED(invocation.GetMetrics(metrics));
  std::vector<std::string> names = NamesOf(metrics);
  order.metric = name.starts_with("metrics.") ? name.substr(8) : name;
  for (const v1::Metric& metric : metrics) {
    if (metric.name() != order.metric) continue;
    order.higher_is_better = metric.direction() == v1::Metric::HIGHER_IS_BETTER;
    return {};
  }
  for (const std::string& custom : comparison.custom_metrics()) {
    names.push_back(custom);
    order.is_custom = order.is_custom || custom == name;
  }
  if (order.is_custom) return {};
  return ask::UsageError(fmt::format("--sort-by: \"{}\" is not a metric{}",
                                     name, ask::DidYouMean(name, names)));
}

}  // namespace

ask::Outcome PrintSortedRows(Invocation& invocation,
                             const v1::Comparison& comparison,
                             const v1::ListComparisonRowsRequest& request,
                             const std::string& metric, const ListFlags& flags,
                             const std::function<void()>& when_empty) {
  Order order;
  MSITCTL_RETURN_IF_FAILED(FindOrder(invocation, comparison, metric, order));
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer, ask::ListPrinter::Create(
                   RowLayout(invocation, comparison, order.metric),
                   invocation.print_options(flags.columns), invocation.out()));
  const auto kept_max = static_cast<size_t>(
      flags.limit == 0 ? kSortedRowsMax
                       : std::min(flags.limit, kSortedRowsMax));
  // The best of the kept rows is at the top.
  std::priority_queue<Entry, std::vector<Entry>, decltype(&IsWorse)> kept(
      IsWorse);
  int64_t seen_count = 0;
  v1::ListComparisonRowsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      invocation, &v1::ComparisonService::Stub::ListComparisonRows, request,
      "rows", 0,
      [&](const google::protobuf::Message& message) {
        ++seen_count;
        kept.push(
            EntryOf(static_cast<const v1::ComparisonRow&>(message), order));
        if (kept.size() > kept_max) kept.pop();
      },
      response));
  std::vector<v1::ComparisonRow> rows;
  for (; !kept.empty(); kept.pop()) rows.push_back(kept.top().row);
  std::for_each(rows.rbegin(), rows.rend(),
                [&](const v1::ComparisonRow& row) { printer->Add(row); });
  printer->Finish(response);
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  const auto printed_count = static_cast<int64_t>(rows.size());
  if (printed_count < seen_count) {
    fmt::print(stderr,
               "msitctl: note: {} of {} rows are shown, the worst by {}\n",
               printed_count, seen_count, ask::Printable(order.metric));
  }
  if (rows.empty() && when_empty) when_empty();
  return {};
}

}  // namespace msitd::msitctl
