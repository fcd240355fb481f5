// SPDX-License-Identifier: Apache-2.0
#include "client/web/compared_row.h"

#include <fmt/format.h>

#include <utility>

#include "client/ask/query/paging.h"

namespace msitd::web {

ask::Outcome FindRun(ask::Connection& connection, const std::string& name,
                     const std::string& id, const std::string& source,
                     std::optional<v1::Run>& out) {
  if (!source.empty()) return {};
  v1::Run run;
  const ask::Outcome outcome =
      connection.AskByName(&v1::RunService::Stub::GetRun, name, run);
  if (outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND)) {
    return {};
  }
  MSITCTL_RETURN_IF_FAILED(outcome);
  if (id.empty() || run.id() == id) out = std::move(run);
  return {};
}

ask::Outcome FindRow(ask::Connection& connection, const std::string& name,
                     int64_t number, v1::ComparisonRow& out) {
  v1::ListComparisonRowsRequest request;
  request.set_comparison(name);
  request.add_rows(number);
  v1::ListComparisonRowsResponse response;
  bool is_found = false;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      connection, &v1::ComparisonService::Stub::ListComparisonRows, request,
      "rows", 0,
      [&](const google::protobuf::Message& message) {
        out = static_cast<const v1::ComparisonRow&>(message);
        is_found = true;
        return false;
      },
      response));
  if (is_found) return {};
  return ask::DaemonError(grpc::StatusCode::NOT_FOUND, "",
                          fmt::format("{} has no row {}", name, number));
}

ask::Outcome HaveTensors(ask::Connection& connection,
                         const v1::Comparison& comparison, bool& out) {
  std::optional<v1::Run> golden;
  std::optional<v1::Run> target;
  MSITCTL_RETURN_IF_FAILED(FindRun(connection, comparison.golden_run(),
                                   comparison.golden_run_id(),
                                   comparison.golden_source(), golden));
  MSITCTL_RETURN_IF_FAILED(FindRun(connection, comparison.target_run(),
                                   comparison.target_run_id(),
                                   comparison.target_source(), target));
  out = golden.has_value() && target.has_value();
  return {};
}

}  // namespace msitd::web
