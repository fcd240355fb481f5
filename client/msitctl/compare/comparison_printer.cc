// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/comparison_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "client/ask/text/partial_text.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/ranges.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/run_place.h"
#include "client/msitctl/compare/verdict_header.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/verdict_flag.h"
#include "client/msitctl/verb/partial.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// The columns before and after the metrics.
constexpr char kColumns[] =
    "row,token~=token,rank~=rank,op,call?=call,io/index,"
    "dtype?=golden.dtype|target.dtype,shape?=golden.shape|target.shape,"
    "verdict~=verdict";
constexpr char kLastColumn[] = ",reason$=reason";

// Returns the number of rows that `verdicts` selects.
int64_t RowCount(const v1::Comparison& comparison,
                 const std::vector<v1::Verdict>& verdicts) {
  const bool all = verdicts.empty();
  int64_t count = all ? ask::RowCountOf(comparison) : 0;
  for (const v1::Verdict verdict : verdicts) {
    if (verdict == v1::PASS) count += comparison.pass_count();
    if (verdict == v1::FAIL) count += comparison.fail_count();
    if (verdict == v1::UNMATCHED) count += comparison.unmatched_count();
    if (verdict == v1::SKIPPED) count += comparison.skipped_count();
  }
  return count;
}

ask::Outcome PrintTable(Invocation& invocation,
                        const v1::Comparison& comparison, Seconds elapsed,
                        const std::vector<v1::Verdict>* verdicts,
                        const ListFlags& flags) {
  invocation.out().Write(VerdictHeader(comparison, elapsed, AllowedBy(flags),
                                       StyleOf(invocation)));
  const int64_t count =
      verdicts == nullptr ? 0 : RowCount(comparison, *verdicts);
  if (count == 0) return {};
  invocation.out().Write("\n");
  MSITCTL_RETURN_IF_FAILED(PrintRows(invocation, comparison,
                                     RowsRequest(comparison.name(), *verdicts),
                                     flags));
  if (flags.limit == 0) return {};
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  NoteRowsLeftOut(comparison, *verdicts, flags.limit);
  return {};
}

// Returns the columns of a table for the metrics that it always has, and for
// those in the policy, which only some rows may have, or for the one that the
// user `wanted`.
std::string MetricColumns(const std::vector<v1::Metric>& metrics,
                          const v1::Policy& policy, std::string_view wanted) {
  std::string out;
  // A daemon that reports only names may have any of them.
  const bool is_told =
      std::any_of(metrics.begin(), metrics.end(),
                  [](const auto& metric) { return metric.family() != 0; });
  for (const v1::Metric& metric : metrics) {
    const bool may_be_asked_for =
        metric.family() == v1::Metric::ELEMENT && policy.metric_sets_size() > 0;
    const bool is_wanted = metric.name() == wanted;
    if (is_told && !metric.in_default_columns() && !may_be_asked_for &&
        !is_wanted) {
      continue;
    }
    const char* const mark = is_wanted                     ? ""
                             : metric.in_default_columns() ? "?"
                                                           : "+";
    out += fmt::format(",{0}{1}=metrics.{0}", metric.name(), mark);
  }
  return out;
}

}  // namespace

v1::ListComparisonRowsRequest RowsRequest(
    const std::string& comparison, const std::vector<v1::Verdict>& verdicts) {
  v1::ListComparisonRowsRequest request;
  request.set_comparison(comparison);
  for (const v1::Verdict verdict : verdicts) request.add_verdicts(verdict);
  return request;
}

std::string VerdictMember(const v1::Comparison& comparison,
                          ask::Allowed allowed) {
  return fmt::format("\"verdict\":\"{}\"",
                     ask::WordOf(ask::ConclusionOf(comparison, allowed)));
}

void NoteRowsLeftOut(const v1::Comparison& comparison,
                     const std::vector<v1::Verdict>& verdicts,
                     int64_t printed_count) {
  const int64_t count = RowCount(comparison, verdicts);
  if (printed_count >= count) return;
  // `c-000001@node0` is a name among several daemons.
  const bool asks_many = comparison.name().find('@') != std::string::npos;
  fmt::print(stderr,
             "msitctl: note: {} of {} rows are shown; to print all{}: msitctl "
             "compare rows {}{}\n",
             printed_count, count,
             asks_many ? ", with the same --endpoints" : "",
             ask::Printable(comparison.name()), VerdictFlagText(verdicts));
}

void TellIdleRules(const v1::Comparison& comparison) {
  bool has_pattern = false;
  for (const std::string& rule : comparison.idle_rules()) {
    const bool is_mapping = rule.starts_with("--mapping: ");
    const bool is_view = rule.starts_with("--golden-view ") ||
                         rule.starts_with("--target-view ");
    // Regular expressions match parts of names.
    const bool is_regex = rule.starts_with("--rewrite");
    has_pattern = has_pattern || !(is_mapping || is_regex);
    fmt::print(stderr, "msitctl: note: {} matched no {}\n",
               ask::Printable(rule),
               is_view      ? "tensors, or only tensors that an earlier view "
                              "replaces"
               : is_mapping ? "tensors"
                            : "op");
  }
  if (!has_pattern) return;
  fmt::print(stderr,
             "msitctl: note: patterns match whole names, such as root.head. To "
             "match all names that end in head, use '*head'\n");
}

std::vector<std::string> NamesOf(const std::vector<v1::Metric>& metrics) {
  std::vector<std::string> names;
  for (const v1::Metric& metric : metrics) names.push_back(metric.name());
  return names;
}

ask::ListLayout RowLayout(Invocation& invocation,
                          const v1::Comparison& comparison,
                          std::string_view wanted) {
  ask::ListLayout layout;
  layout.response = v1::ListComparisonRowsResponse::descriptor();
  layout.field = "rows";
  layout.columns = kColumns;
  layout.name = "golden.name,target.name";
  // Without a response, the metrics stay together in one column.
  std::vector<v1::Metric> metrics;
  if (invocation.GetMetrics(metrics).ok() && !metrics.empty()) {
    layout.columns += MetricColumns(metrics, comparison.policy(), wanted);
    layout.keys["metrics"] = NamesOf(metrics);
  }
  std::vector<std::string>& custom_columns = layout.keys["custom_metrics"];
  for (const std::string& name : comparison.custom_metrics()) {
    layout.columns += fmt::format(",{0}=custom_metrics.{0}", name);
    custom_columns.push_back(name);
    custom_columns.push_back(name + ":text");
  }
  layout.columns += kLastColumn;
  return layout;
}

std::vector<std::string> RowColumnWords() {
  ask::ListLayout layout;
  layout.field = "rows";
  layout.columns = std::string(kColumns) + kLastColumn;
  std::vector<std::string> words =
      ColumnWords(*v1::ListComparisonRowsResponse::descriptor(), layout);
  words.emplace_back(kMetricWord);
  return words;
}

ask::Outcome PrintRows(Invocation& invocation, const v1::Comparison& comparison,
                       const v1::ListComparisonRowsRequest& request,
                       const ListFlags& flags,
                       const std::function<void()>& when_empty) {
  return PrintPages(invocation, RowLayout(invocation, comparison), flags,
                    &v1::ComparisonService::Stub::ListComparisonRows, request,
                    when_empty);
}

ask::Outcome PrintComparison(Invocation& invocation,
                             const v1::Comparison& comparison, Seconds elapsed,
                             const std::vector<v1::Verdict>* verdicts,
                             const ListFlags& flags) {
  PartialNotice(invocation).See(comparison);
  switch (invocation.options().format) {
    case ask::Format::kTable:
      return PrintTable(invocation, comparison, elapsed, verdicts, flags);
    case ask::Format::kName:
      invocation.out().Write(ask::Printable(comparison.name()) + "\n");
      return {};
    case ask::Format::kCsv:
    case ask::Format::kJson:
      break;
  }
  ask::ListLayout layout = RowLayout(invocation, comparison);
  layout.response = v1::StreamComparisonRowsResponse::descriptor();
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer, ask::ListPrinter::Create(std::move(layout),
                                        invocation.print_options(flags.columns),
                                        invocation.out()));
  if (verdicts != nullptr) {
    v1::ListComparisonRowsResponse response;
    MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
        invocation, &v1::ComparisonService::Stub::ListComparisonRows,
        RowsRequest(comparison.name(), *verdicts), "rows", flags.limit,
        [&printer](const auto& row) { printer->Add(row); }, response));
  }
  v1::StreamComparisonRowsResponse rest;
  *rest.mutable_comparison() = comparison;
  printer->Finish(rest, VerdictMember(comparison, AllowedBy(flags)));
  return {};
}

}  // namespace msitd::msitctl
