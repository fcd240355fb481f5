// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "client/ask/print/progress.h"
#include "client/ask/text/conclusion.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/follow.h"

namespace msitd::msitctl {
namespace {

// Short comparisons end at once. Long ones are polled twice a second.
constexpr std::chrono::milliseconds kFirstPoll(5);
constexpr std::chrono::milliseconds kSlowestPoll(500);
// Consecutive polls that may fail with UNAVAILABLE while the daemon restarts.
constexpr int kLostPollsMax = 10;
constexpr std::chrono::seconds kCancelTimeout(5);

std::string ProgressText(const v1::Comparison& comparison) {
  const std::string waiting = WaitingText(comparison);
  if (!waiting.empty()) return waiting;
  const int64_t done = ask::RowCountOf(comparison);
  const std::string total = comparison.total_count() == 0
                                ? std::string()
                                : fmt::format("/{}", comparison.total_count());
  return fmt::format("{}: {}{} rows, {} fail, {} unmatched, {} read",
                     comparison.name(), done, total, comparison.fail_count(),
                     comparison.unmatched_count(),
                     ask::HumanSize(comparison.read_bytes()));
}

ask::Outcome OutcomeOfDone(const v1::Comparison& comparison,
                           ask::Allowed allowed) {
  if (comparison.watched_count() > 0) return {ask::kExitPolicyFailed, ""};
  switch (ask::ConclusionOf(comparison, allowed)) {
    case ask::Conclusion::kPass:
      return {};
    case ask::Conclusion::kPartial:
      return {ask::kExitPartial, ""};
    case ask::Conclusion::kFail:
      break;
  }
  return {ask::kExitPolicyFailed, ""};
}

}  // namespace

ask::Outcome CancelAfter(ask::Outcome outcome, Invocation& invocation,
                         const std::string& name) {
  v1::Comparison ignored;
  if (invocation.node_fanout() != nullptr) {
    const ask::Outcome cancelled = invocation.AskToTheEnd(
        &v1::ComparisonService::Stub::CancelComparison,
        ask::RequestFor<v1::CancelComparisonRequest>(name), ignored);
    outcome.error +=
        cancelled.ok() ? fmt::format("; {} was cancelled", ask::Printable(name))
                       : fmt::format("; {} may still be running: {}",
                                     ask::Printable(name), cancelled.error);
    return outcome;
  }
  grpc::ClientContext context;
  context.set_deadline(Invocation::Clock::now() + kCancelTimeout);
  const grpc::Status status =
      invocation.stub<v1::ComparisonService::Stub>().CancelComparison(
          &context, ask::RequestFor<v1::CancelComparisonRequest>(name),
          &ignored);
  outcome.error +=
      status.ok()
          ? fmt::format("; {} was cancelled", ask::Printable(name))
          : fmt::format("; {} may still be running: {}", ask::Printable(name),
                        ask::DaemonError(status).error);
  return outcome;
}

bool IsTimeout(const ask::Outcome& outcome) {
  return outcome.exit_code ==
         ask::ExitCodeOf(grpc::StatusCode::DEADLINE_EXCEEDED);
}

ask::Outcome OutOfTime(const std::string& name) {
  return ask::DaemonError(grpc::StatusCode::DEADLINE_EXCEEDED, "",
                          fmt::format("{} has not ended in time", name));
}

ask::Outcome TellWhetherItGoesOn(ask::Outcome outcome,
                                 const v1::Comparison& comparison) {
  if (outcome.ok()) return outcome;
  const std::string name = ask::Printable(comparison.name());
  if (outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND)) {
    outcome.error += fmt::format("; {} is no longer running", name);
  } else if (ask::IsOver(comparison)) {
    outcome.error += fmt::format(
        "; {0} has ended; for the result: msitctl compare get {0}", name);
  } else if (comparison.follow() && !comparison.detach()) {
    outcome.error += fmt::format(
        "; {0} continues for about 10 s while the daemon runs, then ends "
        "because its rows are not read; for its state: msitctl compare get {0}",
        name);
  } else {
    outcome.error += fmt::format(
        "; {0} continues while the daemon runs; for its state: msitctl compare "
        "get {0}",
        name);
  }
  return outcome;
}

ask::Outcome WaitForComparison(Invocation& invocation, IfWaitEnds if_wait_ends,
                               v1::Comparison& comparison) {
  const auto end = [&](ask::Outcome outcome) {
    return if_wait_ends == IfWaitEnds::kCancel
               ? CancelAfter(std::move(outcome), invocation, comparison.name())
               : TellWhetherItGoesOn(std::move(outcome), comparison);
  };
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  WaitingNotice notice;
  const auto deadline = invocation.StreamDeadline();
  int lost_count = 0;
  for (auto delay = kFirstPoll; !ask::IsOver(comparison);
       delay = std::min(delay * 3 / 2, kSlowestPoll)) {
    // The number of rows of growing runs is not known.
    progress.Show(ProgressText(comparison),
                  static_cast<double>(ask::RowCountOf(comparison)),
                  comparison.follow()
                      ? 0
                      : static_cast<double>(comparison.total_count()));
    if (!invocation.options().progress) notice.Show(comparison);
    if (invocation.interrupts().WaitFor(delay)) {
      progress.Clear();
      return end(ask::Interrupted());
    }
    v1::Comparison latest;
    const ask::Outcome outcome = invocation.AskByName(
        &v1::ComparisonService::Stub::GetComparison, comparison.name(), latest);
    if (outcome.ok()) comparison = std::move(latest);
    const bool is_late = invocation.options().connection.timeout.has_value() &&
                         IsTimeout(outcome);
    if (is_late || Invocation::Clock::now() >= deadline) {
      progress.Clear();
      return end(OutOfTime(comparison.name()));
    }
    const bool is_lost =
        outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::UNAVAILABLE);
    lost_count = is_lost ? lost_count + 1 : 0;
    const bool goes_on = outcome.ok() ||
                         outcome.exit_code == ask::kExitInterrupted ||
                         (is_lost && lost_count < kLostPollsMax);
    if (!goes_on) {
      progress.Clear();
      return TellWhetherItGoesOn(outcome, comparison);
    }
  }
  return {};
}

ask::Outcome OutcomeOf(const v1::Comparison& comparison, ask::Allowed allowed) {
  switch (comparison.state()) {
    case v1::Comparison::DONE:
      return OutcomeOfDone(comparison, allowed);
    case v1::Comparison::CANCELLED:
      return ask::DaemonError(grpc::Status(
          grpc::StatusCode::CANCELLED,
          comparison.name() + (comparison.error().empty()
                                   ? " was cancelled by another caller"
                                   : ": " + comparison.error())));
    default:
      // A daemon that fails without an error code has a bug.
      return ask::DaemonError(
          comparison.error_code() == 0
              ? grpc::StatusCode::INTERNAL
              : static_cast<grpc::StatusCode>(comparison.error_code()),
          comparison.error_reason(),
          fmt::format("{} failed: {}", comparison.name(), comparison.error()));
  }
}

}  // namespace msitd::msitctl
