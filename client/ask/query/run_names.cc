// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/run_names.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/paging.h"
#include "client/ask/text/nearest.h"

namespace msitd::ask {

namespace {

// The names of all runs, or of many; none if the daemon does not answer.
std::optional<std::vector<std::string>> RunNames(Connection& connection) {
  v1::ListRunsRequest request;
  request.set_page_size(static_cast<int32_t>(kPageRowsMax));
  v1::ListRunsResponse page;
  const Outcome outcome =
      connection.Ask(&v1::RunService::Stub::ListRuns, request, page);
  if (!outcome.ok()) return std::nullopt;
  std::vector<std::string> names;
  for (const v1::Run& run : page.runs()) names.push_back(run.name());
  return names;
}

}  // namespace

std::string RunLike(Connection& connection, const std::string& name) {
  const auto names = RunNames(connection);
  if (!names.has_value()) return {};
  return names->empty() ? "; there are no runs" : DidYouMean(name, *names);
}

std::string RunLikeAnother(Connection& connection, const std::string& name) {
  auto names = RunNames(connection);
  if (!names.has_value()) return {};
  std::erase(*names, name);
  return DidYouMean(name, *names);
}

Outcome ErrorOfTensor(Connection& connection, const std::string& tensor,
                      Outcome outcome) {
  constexpr std::string_view kRuns = "runs/";
  const size_t end = tensor.find('/', kRuns.size());
  if (outcome.exit_code != ExitCodeOf(grpc::StatusCode::NOT_FOUND) ||
      !tensor.starts_with(kRuns) || end == std::string::npos) {
    return outcome;
  }
  v1::Run ignored;
  Outcome of_run = connection.AskByName(
      &v1::RunService::Stub::GetRun,
      tensor.substr(kRuns.size(), end - kRuns.size()), ignored);
  return of_run.missing_run.empty() ? outcome : of_run;
}

}  // namespace msitd::ask
