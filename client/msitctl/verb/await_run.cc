// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/await_run.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "client/ask/text/text.h"
#include "msitd/v1/run_service.pb.h"

namespace msitd::msitctl {
namespace {

constexpr std::chrono::milliseconds kPoll(200);

}  // namespace

ask::Outcome AwaitRun(Invocation& invocation, const std::string& run) {
  const auto deadline = invocation.StreamDeadline();
  for (bool has_told = false;; has_told = true) {
    v1::Run found;
    const ask::Outcome outcome =
        invocation.AskByName(&v1::RunService::Stub::GetRun, run, found);
    if (outcome.exit_code != ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND)) {
      return outcome;
    }
    if (!has_told) {
      fmt::print(stderr, "msitctl: waiting for run {} to begin\n",
                 ask::Printable(run));
    }
    if (invocation.interrupts().WaitFor(kPoll)) return ask::Interrupted();
    if (Invocation::Clock::now() >= deadline) {
      return invocation.OutcomeOf(
          grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                       fmt::format("run {} has not begun in time", run)));
    }
  }
}

}  // namespace msitd::msitctl
