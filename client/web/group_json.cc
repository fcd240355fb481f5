// SPDX-License-Identifier: Apache-2.0
#include "client/web/group_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/ask/text/conclusion.h"
#include "client/web/row_json.h"

namespace msitd::web {
namespace {

using GroupMessage = v1::SummarizeComparisonRowsResponse::Group;

std::string WorstJson(const GroupMessage& group) {
  return group.has_worst() ? NumberJson(group.worst(), 6) : "null";
}

}  // namespace

ask::Outcome GroupsPage(ask::Connection& connection,
                        const v1::SummarizeComparisonRowsRequest& request,
                        std::string& json) {
  using Stub = v1::ComparisonService::Stub;
  if (connection.fanout() != nullptr) {
    return ask::DaemonError(
        grpc::StatusCode::UNIMPLEMENTED, "",
        "rows of several daemons are not reduced to groups");
  }
  // Before the rows, so that none is produced in between.
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(connection.AskByName(
      &Stub::GetComparison, request.comparison(), comparison));
  v1::SummarizeComparisonRowsResponse response;
  MSITCTL_RETURN_IF_FAILED(
      connection.Ask(&Stub::SummarizeComparisonRows, request, response));
  std::unordered_map<std::string_view, size_t> positions;
  std::vector<std::string> ops;
  std::vector<std::string> groups;
  groups.reserve(static_cast<size_t>(response.groups_size()));
  for (const GroupMessage& group : response.groups()) {
    const auto [found, is_new] = positions.try_emplace(group.op(), ops.size());
    if (is_new) ops.push_back(QuotedJson(group.op()));
    groups.push_back(fmt::format("[{},{},{},{},{},{},{},{},{}]", found->second,
                                 group.rank(), group.token(),
                                 group.pass_count(), group.fail_count(),
                                 group.unmatched_count(), group.skipped_count(),
                                 WorstJson(group), group.worst_row()));
  }
  json = fmt::format(
      R"({{"ops":[{}],"groups":[{}],"next_row":{},"row_count":{},)"
      R"("has_ended":{}}})",
      fmt::join(ops, ","), fmt::join(groups, ","), response.next_row(),
      response.row_count(), ask::IsOver(comparison));
  return {};
}

}  // namespace msitd::web
