// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/metric.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "client/ask/print/progress.h"
#include "client/ask/print/table.h"
#include "client/ask/text/conclusion.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/row_measurer.h"
#include "client/msitctl/compare/same_runs.h"
#include "client/msitctl/compare/wait.h"
#include "client/msitctl/flag/verdict_flag.h"
#include "client/msitctl/verb/pages.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

ask::Outcome GetEnded(Invocation& invocation, const std::string& name,
                      v1::Comparison& comparison) {
  MSITCTL_RETURN_IF_FAILED(invocation.AskByName(
      &v1::ComparisonService::Stub::GetComparison, name, comparison));
  if (ask::IsOver(comparison)) return {};
  return ask::DaemonError(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                       name + " has not ended"));
}

ask::Outcome PrintCounts(
    Invocation& invocation,
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
    const std::vector<MetricCounts>& counts, const v1::Comparison& comparison) {
  if (!invocation.is_table()) return PrintOne(invocation, comparison, "name");
  ask::Table table({{"metric"}, {"rows", true}, {"values", true}},
                   invocation.print_options().table);
  for (size_t i = 0; i < plugins.size(); ++i) {
    table.Add({plugins[i]->metric(), fmt::format("{}", counts[i].row_count),
               fmt::format("{}", counts[i].value_count)});
  }
  invocation.out().Write(table.Flush());
  return {};
}

}  // namespace

ask::Outcome AddOwnMetrics(
    Invocation& invocation,
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
    uint64_t pair_bytes_max, const std::vector<v1::Verdict>& verdicts,
    v1::Comparison& comparison, std::vector<MetricCounts>& counts) {
  MSITCTL_RETURN_IF_FAILED(CheckSameRuns(invocation, comparison));
  const ask::Interrupts::Hold hold(invocation.interrupts());
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  RowMeasurer measurer(invocation, plugins, pair_bytes_max, comparison, counts);
  v1::ListComparisonRowsRequest request =
      RowsRequest(comparison.name(), verdicts);
  request.set_page_size(static_cast<int32_t>(ask::kPageRowsMax));
  v1::ListComparisonRowsResponse page;
  do {
    MSITCTL_RETURN_IF_FAILED(invocation.Ask(
        &v1::ComparisonService::Stub::ListComparisonRows, request, page));
    for (const v1::ComparisonRow& row : page.rows()) {
      progress.Show(
          fmt::format("{}: row {} in plug-ins", comparison.name(), row.row()),
          static_cast<double>(row.row()),
          static_cast<double>(ask::RowCountOf(comparison)));
      MSITCTL_RETURN_IF_FAILED(measurer.Add(row));
    }
    request.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty());
  return measurer.Flush();
}

ask::Outcome TellOfProblems(
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
    const std::vector<MetricCounts>& counts) {
  ask::Outcome outcome;
  for (size_t i = 0; i < plugins.size(); ++i) {
    const int64_t missing = counts[i].row_count - counts[i].value_count;
    if (missing > 0) {
      fmt::print(stderr, "msitctl: note: {}: no value for {} of {} rows; {}\n",
                 plugins[i]->metric(), missing, counts[i].row_count,
                 ask::Printable(counts[i].first_problem));
    }
    if (!plugins[i]->given_up().empty()) {
      outcome = ask::LocalError(fmt::format("--plugin {}: aborted: {}",
                                            plugins[i]->metric(),
                                            plugins[i]->given_up()));
    } else if (missing > 0 && counts[i].value_count == 0) {
      outcome = ask::LocalError(
          fmt::format("--plugin {}: no row has a value", plugins[i]->metric()));
    }
  }
  return outcome;
}

ask::Outcome MeasureComparison(Invocation& invocation,
                               const MetricFlags& flags) {
  if (flags.plugins.plugins.empty()) {
    return ask::UsageError("--plugin FILE.py:FUNCTION is missing");
  }
  std::vector<v1::Verdict> verdicts;
  MSITCTL_ASSIGN_OR_USAGE(verdicts, ParseVerdicts(flags.verdicts));
  std::vector<v1::Metric> taken;
  MSITCTL_RETURN_IF_FAILED(invocation.GetMetrics(taken));
  std::vector<std::unique_ptr<ask::Plugin>> plugins;
  MSITCTL_RETURN_IF_FAILED(StartPlugins(flags.plugins, NamesOf(taken),
                                        invocation.interrupts(), plugins));
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(GetEnded(invocation, flags.comparison, comparison));
  if (!comparison.golden_source().empty() ||
      !comparison.target_source().empty()) {
    return ask::UsageError(
        fmt::format("plug-ins need the bytes of both runs, and one run of "
                    "comparison {} is not on this daemon",
                    comparison.name()));
  }
  std::vector<MetricCounts> counts;
  MSITCTL_RETURN_IF_FAILED(AddOwnMetrics(invocation, plugins,
                                         flags.plugins.pair_bytes_max, verdicts,
                                         comparison, counts));
  MSITCTL_RETURN_IF_FAILED(
      PrintCounts(invocation, plugins, counts, comparison));
  return TellOfProblems(plugins, counts);
}

}  // namespace msitd::msitctl
