// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/same_runs.h"

#include <fmt/format.h>

#include "client/ask/text/text.h"
#include "msitd/v1/run_service.grpc.pb.h"

namespace msitd::msitctl {

ask::Outcome FindReplacement(Invocation& invocation, const std::string& run,
                             const std::string& id, bool& is_replaced) {
  is_replaced = false;
  if (id.empty()) return {};
  v1::Run found;
  const ask::Outcome outcome =
      invocation.AskByName(&v1::RunService::Stub::GetRun, run, found);
  if (!outcome.missing_run.empty()) return {};
  MSITCTL_RETURN_IF_FAILED(outcome);
  is_replaced = found.id() != id;
  return {};
}

ask::Outcome CheckSameRuns(Invocation& invocation,
                           const v1::Comparison& comparison) {
  const auto check = [&](const std::string& run, const std::string& id,
                         const std::string& source) -> ask::Outcome {
    bool is_replaced = false;
    if (source.empty()) {
      MSITCTL_RETURN_IF_FAILED(
          FindReplacement(invocation, run, id, is_replaced));
    }
    if (!is_replaced) return {};
    return ask::DaemonError(
        grpc::StatusCode::FAILED_PRECONDITION, "RUN_REPLACED",
        fmt::format("run {} of comparison {} was deleted, and another run has "
                    "its name now: compare the runs again",
                    ask::Printable(run), comparison.name()));
  };
  MSITCTL_RETURN_IF_FAILED(check(comparison.golden_run(),
                                 comparison.golden_run_id(),
                                 comparison.golden_source()));
  return check(comparison.target_run(), comparison.target_run_id(),
               comparison.target_source());
}

}  // namespace msitd::msitctl
