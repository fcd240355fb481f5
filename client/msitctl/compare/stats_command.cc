// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/stats_command.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/print/printer.h"
#include "client/ask/query/row_groups.h"
#include "client/ask/text/ranges.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/verb/pages.h"

namespace msitd::msitctl {
namespace {

using Request = v1::SummarizeComparisonRowsRequest;

struct StatsFlags {
  std::string name;
  std::vector<std::string> by;
  std::string value;
  ListFlags list;
};

// Columns after those of the properties.
constexpr char kRowGroupColumns[] =
    "pass=pass_count,fail=fail_count,unmatched~=unmatched_count,"
    "skipped~=skipped_count,nonfinite~=non_finite_count,worst,row=worst_row";

ask::ListLayout StatsLayout(const std::string& properties) {
  ask::ListLayout layout;
  layout.response = v1::SummarizeComparisonRowsResponse::descriptor();
  layout.field = "groups";
  layout.columns = properties + kRowGroupColumns;
  layout.name = "op";
  return layout;
}

ask::Outcome PrintStats(Invocation& invocation, const StatsFlags& flags) {
  Request request;
  request.set_comparison(flags.name);
  request.set_value(flags.value);
  std::string properties;
  for (const std::string& word : ask::SplitLists(flags.by)) {
    request.add_group_by(word == "op"     ? Request::OP
                         : word == "rank" ? Request::RANK
                                          : Request::TOKEN);
    properties += word + ",";
  }
  v1::SummarizeComparisonRowsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::SummarizeRows(invocation, request, response));
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(StatsLayout(properties),
                               invocation.print_options(flags.list.columns),
                               invocation.out()));
  int64_t count = 0;
  for (const auto& group : response.groups()) {
    if (flags.list.limit != 0 && count++ == flags.list.limit) break;
    printer->Add(group);
  }
  printer->Finish(response);
  return {};
}

}  // namespace

void AddRowStatsVerb(CommandLine& line, CLI::App& compare) {
  auto flags = std::make_shared<StatsFlags>();
  CLI::App& verb = line.AddVerb(
      compare,
      {.name = "stats",
       .summary = "Counts the rows of a comparison by group, and finds the "
                  "worst of each.",
       .examples = "msitctl compare stats c-000001 --by op\n"
                   "msitctl compare stats c-000001 --by rank,token --value "
                   "nl2",
       .rpcs = "ComparisonService.SummarizeComparisonRows, "
               "NodeService.GetCapabilities"},
      [flags](Invocation& invocation) {
        return PrintStats(invocation, *flags);
      });
  AddComparisonName(verb, flags->name);
  verb.add_option("--by", flags->by,
                  "Group by: op, rank, token or several of them, separated by "
                  "commas (default: one group)")
      ->check(ListOf({"op", "rank", "token"}))
      ->type_name("LIST");
  verb.add_option("--value", flags->value,
                  "A metric, or share for the error as a share of its bound "
                  "(default)")
      ->type_name("METRIC");
  AddListFlags(verb, flags->list,
               ColumnWords(*v1::SummarizeComparisonRowsResponse::descriptor(),
                           StatsLayout("op,rank,token,")),
               "Maximum number of groups to print; default all");
}

}  // namespace msitd::msitctl
