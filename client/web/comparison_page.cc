// SPDX-License-Identifier: Apache-2.0
#include "client/web/comparison_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "client/ask/query/daemon_metrics.h"
#include "client/ask/query/paging.h"
#include "client/ask/report/page/html_report.h"
#include "client/ask/report/page/page_header.h"
#include "client/ask/report/page/row_histograms.h"
#include "client/ask/text/conclusion.h"
#include "client/ask/text/json_text.h"
#include "client/ask/text/policy_text.h"
#include "client/web/compared_row.h"
#include "client/web/method_table.h"
#include "client/web/row_json.h"
#include "protos/bounds/bound_share.h"

namespace msitd::web {
namespace {

using Comparisons = v1::ComparisonService::Stub;

std::string JsonOf(const google::protobuf::Message& message) {
  return ask::ToJson(message, /*indented=*/false);
}

// `[[label, text, row], ...]`
std::string FactsJson(const std::vector<ask::PageFact>& facts) {
  std::vector<std::string> items;
  for (const ask::PageFact& fact : facts) {
    items.push_back(fmt::format("[{},{},{}]", QuotedJson(fact.label),
                                QuotedJson(fact.text), fact.row));
  }
  return fmt::format("[{}]", fmt::join(items, ","));
}

// A row with everything that describes it in words.
struct RowContext {
  v1::Comparison comparison;
  std::vector<v1::Metric> metrics;
};

ask::Outcome GetContext(ask::Connection& connection, const std::string& name,
                        RowContext& out) {
  MSITCTL_RETURN_IF_FAILED(
      connection.AskByName(&Comparisons::GetComparison, name, out.comparison));
  return ask::GetMetrics(connection, out.metrics);
}

// A tensor of a row, or null for one that the daemon no longer has.
ask::Outcome TensorJson(ask::Connection& connection, const std::string& name,
                        std::string& out) {
  out = "null";
  if (name.empty()) return {};
  v1::Tensor tensor;
  const ask::Outcome outcome =
      connection.AskByName(&v1::TensorService::Stub::GetTensor, name, tensor);
  if (outcome.ok()) out = JsonOf(tensor);
  const bool is_absent =
      outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND) ||
      outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::UNIMPLEMENTED);
  return is_absent ? ask::Outcome() : outcome;
}

std::string HistogramJson(const std::optional<v1::Histogram>& histogram) {
  return histogram.has_value() ? JsonOf(*histogram) : "null";
}

}  // namespace

ask::Outcome ComparisonList(ask::Connection& connection, std::string& json) {
  std::deque<std::string> items;
  v1::ListComparisonsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      connection, &Comparisons::ListComparisons, v1::ListComparisonsRequest(),
      "comparisons", 0,
      [&items](const google::protobuf::Message& message) {
        const auto& row = static_cast<const v1::Comparison&>(message);
        items.push_front(fmt::format(
            R"({{"name":{},"golden_run":{},"target_run":{},"state":{},)"
            R"("verdict":{},"title":{},"row_count":{},"fail_count":{}}})",
            QuotedJson(row.name()), QuotedJson(row.golden_run()),
            QuotedJson(row.target_run()),
            QuotedJson(ask::WordOf(v1::Comparison::State_Name(row.state()))),
            QuotedJson(ask::VerdictWord(row, /*allowed=*/false)),
            QuotedJson(ask::TitleText(row)), ask::RowCountOf(row),
            row.fail_count()));
        if (items.size() > kComparisonsMax) items.pop_back();
      },
      response));
  json = fmt::format("{{\"comparisons\":[{}]}}", fmt::join(items, ","));
  return {};
}

ask::Outcome ComparisonPage(ask::Connection& connection,
                            const std::string& name, std::string& json) {
  RowContext context;
  MSITCTL_RETURN_IF_FAILED(GetContext(connection, name, context));
  const v1::Comparison& comparison = context.comparison;
  ask::PageFacts facts;
  MSITCTL_RETURN_IF_FAILED(FindRun(connection, comparison.golden_run(),
                                   comparison.golden_run_id(),
                                   comparison.golden_source(), facts.golden));
  MSITCTL_RETURN_IF_FAILED(FindRun(connection, comparison.target_run(),
                                   comparison.target_run_id(),
                                   comparison.target_source(), facts.target));
  std::vector<std::string> metrics;
  for (const v1::Metric& metric : context.metrics) {
    metrics.push_back(JsonOf(metric));
  }
  json = fmt::format(
      R"({{"comparison":{},"title":{},"verdict":{},"findings":{},)"
      R"("setup":{},"metrics":[{}]}})",
      JsonOf(comparison), QuotedJson(ask::TitleText(comparison)),
      QuotedJson(ask::VerdictWord(comparison, /*allowed=*/false)),
      FactsJson(ask::FindingFacts(comparison)),
      FactsJson(ask::SetupFacts(comparison, facts)), fmt::join(metrics, ","));
  return {};
}

ask::Outcome RowsPage(ask::Connection& connection,
                      const v1::ListComparisonRowsRequest& request,
                      const std::string& node, std::string& json) {
  RowContext context;
  MSITCTL_RETURN_IF_FAILED(
      GetContext(connection, request.comparison(), context));
  const Bounds bounds(context.comparison, context.metrics);
  const WebMethod* const method =
      FindWebMethod("ComparisonService.ListComparisonRows");
  v1::ListComparisonRowsResponse response;
  RowNodes row_nodes{.only = node, .nodes = {}};
  MSITCTL_RETURN_IF_FAILED(
      CallWebMethod(connection, *method, request, response, row_nodes));
  std::vector<std::string> rows;
  for (const v1::ComparisonRow& row : response.rows()) {
    rows.push_back(RowJson(row, bounds));
  }
  json = fmt::format(R"({{"rows":[{}],"next_page_token":{})",
                     fmt::join(rows, ",\n"),
                     QuotedJson(response.next_page_token()));
  row_nodes.AppendTo(json);
  json += '}';
  return {};
}

ask::Outcome RowPage(ask::Connection& connection, const std::string& name,
                     int64_t row_number, std::string& json) {
  if (connection.fanout() != nullptr) {
    return ask::DaemonError(
        grpc::StatusCode::UNIMPLEMENTED, "",
        "several daemons have rows of the same number; open the page of one");
  }
  RowContext context;
  MSITCTL_RETURN_IF_FAILED(GetContext(connection, name, context));
  v1::ComparisonRow row;
  MSITCTL_RETURN_IF_FAILED(FindRow(connection, name, row_number, row));
  bool has_tensors = false;
  MSITCTL_RETURN_IF_FAILED(
      HaveTensors(connection, context.comparison, has_tensors));
  std::string golden = "null";
  std::string target = "null";
  ask::RowHistogram histogram;
  if (has_tensors) {
    MSITCTL_RETURN_IF_FAILED(
        TensorJson(connection, row.golden().name(), golden));
    MSITCTL_RETURN_IF_FAILED(
        TensorJson(connection, row.target().name(), target));
    ask::RowHistograms histograms(1);
    histograms.Consider(row);
    MSITCTL_RETURN_IF_FAILED(
        histograms.Fetch(connection, [](std::string_view /*line*/) {}));
    if (!histograms.rows().empty()) histogram = histograms.rows().front();
  } else {
    histogram.note = "a run was deleted, or is on another daemon";
  }
  const Bounds bounds(context.comparison, context.metrics);
  json = fmt::format(
      R"({{"row":{},"message":{},"golden":{{"tensor":{},"histogram":{}}},)"
      R"("target":{{"tensor":{},"histogram":{}}},"note":{}}})",
      RowJson(row, bounds), JsonOf(row), golden,
      HistogramJson(histogram.golden), target, HistogramJson(histogram.target),
      QuotedJson(histogram.note));
  return {};
}

}  // namespace msitd::web
