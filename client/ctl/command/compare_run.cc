// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/compare_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/ctl/command/compare_follow.h"
#include "client/ctl/command/compare_metric.h"
#include "client/ctl/command/comparison_printer.h"
#include "client/ctl/command/layout_hints.h"
#include "client/ctl/command/partial.h"
#include "client/ctl/print/progress.h"
#include "client/text/text.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

// Short comparisons end at once, long ones are asked about twice a second.
constexpr std::chrono::milliseconds kFirstPoll(5);
constexpr std::chrono::milliseconds kSlowestPoll(500);
// Polls in a row that may fail with UNAVAILABLE: the daemon restarts.
constexpr int kLostPollsMax = 10;
constexpr std::chrono::seconds kCancelTimeout(5);
// Rows under the header of a table, unless told otherwise.
constexpr int64_t kTableRows = 20;

Outcome MakeRequest(const CompareFlags& flags,
                    v1::CreateComparisonRequest& request) {
  if (flags.golden.empty() || flags.target.empty()) {
    return UsageError("name two runs: compare run GOLDEN TARGET");
  }
  v1::Comparison& comparison = *request.mutable_comparison();
  comparison.set_golden_run(flags.golden);
  comparison.set_target_run(flags.target);
  v1::TensorFilter filter;
  MSITCTL_ASSIGN_OR_USAGE(filter, ToFilter(flags.selection));
  if (filter.ByteSizeLong() > 0) *comparison.mutable_filter() = filter;
  v1::Matching matching;
  MSITCTL_RETURN_IF_FAILED(ToMatching(flags.matching, matching));
  if (matching.ByteSizeLong() > 0) *comparison.mutable_matching() = matching;
  comparison.set_follow(flags.follow);
  comparison.set_detach(flags.detach);
  for (const std::string& watch : flags.watches) {
    comparison.add_watches(watch == "nan"    ? "target_nan_count > 0"
                           : watch == "inf"  ? "target_inf_count > 0"
                           : watch == "fail" ? "failed == 1"
                                             : watch);
  }
  v1::Policy policy;
  MSITCTL_RETURN_IF_FAILED(ToPolicy(flags.policy, policy));
  if (policy.ByteSizeLong() > 0) *comparison.mutable_policy() = policy;
  return {};
}

std::string ProgressText(const v1::Comparison& comparison) {
  const std::string waiting = WaitingText(comparison);
  if (!waiting.empty()) return waiting;
  const int64_t done = comparison.pass_count() + comparison.fail_count() +
                       comparison.unmatched_count() +
                       comparison.skipped_count();
  const std::string total = comparison.total_count() == 0
                                ? std::string()
                                : fmt::format("/{}", comparison.total_count());
  return fmt::format("{}: {}{} rows, {} fail, {} unmatched, {} read",
                     comparison.name(), done, total, comparison.fail_count(),
                     comparison.unmatched_count(),
                     HumanSize(comparison.read_bytes()));
}

bool IsOver(const v1::Comparison& comparison) {
  return comparison.state() == v1::Comparison::DONE ||
         comparison.state() == v1::Comparison::CANCELLED ||
         comparison.state() == v1::Comparison::FAILED;
}

// Cancels with a deadline of its own: whatever ended `outcome` has ended all
// others.
Outcome CancelAfter(Outcome outcome, Session& session,
                    const std::string& name) {
  v1::CancelComparisonRequest request;
  request.set_comparison(name);
  v1::Comparison ignored;
  grpc::ClientContext context;
  context.set_deadline(Session::Clock::now() + kCancelTimeout);
  const grpc::Status status =
      session.comparisons().CancelComparison(&context, request, &ignored);
  outcome.error += status.ok()
                       ? fmt::format("; {} is cancelled", Printable(name))
                       : fmt::format("; {} may go on: {}", Printable(name),
                                     DaemonError(status).error);
  return outcome;
}

bool IsTimeout(const Outcome& outcome) {
  return outcome.exit_code == ExitCodeOf(grpc::StatusCode::DEADLINE_EXCEEDED);
}

Outcome OutOfTime(const std::string& name) {
  return DaemonError(grpc::StatusCode::DEADLINE_EXCEEDED, "",
                     fmt::format("{} is not over in time", name));
}

// Adds to what ended the wait for `comparison` what becomes of it.
Outcome TellWhetherItGoesOn(Outcome outcome, const v1::Comparison& comparison) {
  if (outcome.ok()) return outcome;
  const std::string name = Printable(comparison.name());
  if (outcome.exit_code == ExitCodeOf(grpc::StatusCode::NOT_FOUND)) {
    outcome.error += fmt::format("; {} does not go on", name);
  } else if (IsOver(comparison)) {
    outcome.error += fmt::format(
        "; {0} is over, msitctl compare get {0} prints what came out", name);
  } else if (comparison.follow() && !comparison.detach()) {
    outcome.error += fmt::format(
        "; {0} goes on for some 10 s as long as the daemon does, then ends "
        "because nobody reads it; msitctl compare get {0} tells",
        name);
  } else {
    outcome.error += fmt::format(
        "; {0} goes on as long as the daemon does, msitctl compare get {0} "
        "tells",
        name);
  }
  return outcome;
}

// Waits until `comparison` is over, and keeps it up to date.
Outcome Wait(Session& session, v1::Comparison& comparison) {
  Progress progress(session.options().progress,
                    session.options().terminal.stderr_width);
  WaitingNotice notice;
  const auto deadline = session.StreamDeadline();
  v1::GetComparisonRequest request;
  request.set_comparison(comparison.name());
  int lost_count = 0;
  for (auto delay = kFirstPoll; !IsOver(comparison);
       delay = std::min(delay * 3 / 2, kSlowestPoll)) {
    progress.Show(ProgressText(comparison));
    if (!session.options().progress) notice.Show(comparison);
    if (session.interrupts().WaitFor(delay)) {
      progress.Clear();
      return CancelAfter(Interrupted(), session, comparison.name());
    }
    v1::Comparison latest;
    const Outcome outcome = session.Unary([&](grpc::ClientContext& context) {
      return session.comparisons().GetComparison(&context, request, &latest);
    });
    if (outcome.ok()) comparison = std::move(latest);
    const bool is_late =
        session.options().connection.timeout.has_value() && IsTimeout(outcome);
    if (is_late || Session::Clock::now() >= deadline) {
      progress.Clear();
      return CancelAfter(OutOfTime(comparison.name()), session,
                         comparison.name());
    }
    const bool is_lost =
        outcome.exit_code == ExitCodeOf(grpc::StatusCode::UNAVAILABLE);
    lost_count = is_lost ? lost_count + 1 : 0;
    const bool goes_on = outcome.ok() ||
                         outcome.exit_code == kExitInterrupted ||
                         (is_lost && lost_count < kLostPollsMax);
    if (!goes_on) {
      progress.Clear();
      return TellWhetherItGoesOn(outcome, comparison);
    }
  }
  return {};
}

Outcome OutcomeOfDone(const v1::Comparison& comparison, bool allows_partial) {
  if (comparison.watched_count() > 0) return {kExitPolicyFailed, ""};
  switch (ConclusionOf(comparison, allows_partial)) {
    case Conclusion::kPass:
      return {};
    case Conclusion::kPartial:
      return {kExitPartial, ""};
    case Conclusion::kFail:
      break;
  }
  return {kExitPolicyFailed, ""};
}

Outcome OutcomeOf(const v1::Comparison& comparison, bool allows_partial) {
  switch (comparison.state()) {
    case v1::Comparison::DONE:
      return OutcomeOfDone(comparison, allows_partial);
    case v1::Comparison::CANCELLED:
      return DaemonError(
          grpc::Status(grpc::StatusCode::CANCELLED,
                       comparison.name() + (comparison.error().empty()
                                                ? " was cancelled by another"
                                                : ": " + comparison.error())));
    default:
      // Of a daemon that tells no code, something is wrong in it.
      return DaemonError(
          comparison.error_code() == 0
              ? grpc::StatusCode::INTERNAL
              : static_cast<grpc::StatusCode>(comparison.error_code()),
          comparison.error_reason(),
          fmt::format("{} failed: {}; it does not go on", comparison.name(),
                      comparison.error()));
  }
}

// Ends what was followed: a table and JSON have the header behind the rows.
void PrintEnd(Session& session, const v1::Comparison& comparison,
              std::chrono::steady_clock::duration elapsed,
              bool allows_partial) {
  PartialNotice(session).See(comparison);
  if (session.is_table()) {
    session.out().Write(VerdictHeader(comparison, elapsed,
                                      session.options().color, allows_partial));
  } else if (session.options().format == Format::kJson) {
    session.out().Write(fmt::format(
        "{{{},\"comparison\":{}}}\n", VerdictMember(comparison, allows_partial),
        ToJson(comparison, /*indented=*/false, session.print_options())));
  }
}

// Prints rows as they come, then the header.
Outcome Follow(Session& session, const CompareFlags& flags,
               const std::vector<v1::Verdict>* verdicts, RowLines& lines,
               v1::Comparison& comparison,
               std::chrono::steady_clock::time_point start) {
  const std::string name = comparison.name();
  if (session.options().format == Format::kName) {
    session.out().Write(Printable(name) + "\n");
    lines.Flush();
  }
  const Outcome outcome = FollowComparison(session, lines, comparison);
  if (outcome.exit_code == kExitInterrupted) {
    return CancelAfter(outcome, session, name);
  }
  if (IsTimeout(outcome)) return CancelAfter(OutOfTime(name), session, name);
  if (!outcome.ok()) return TellWhetherItGoesOn(outcome, comparison);
  PrintEnd(session, comparison, std::chrono::steady_clock::now() - start,
           flags.list.allow_partial);
  if (session.is_table() && verdicts != nullptr) {
    MSITCTL_RETURN_IF_FAILED(session.out().Finish());
    NoteRowsLeftOut(comparison, *verdicts, lines.printed_count());
  }
  TellLayoutHints(comparison);
  TellIdleRules(comparison);
  return OutcomeOf(comparison, flags.list.allow_partial);
}

// Before the comparison is made, so that a plug-in that is wrong is told at
// once.
Outcome StartPluginsOf(Session& session, const CompareFlags& flags,
                       std::vector<std::unique_ptr<Plugin>>& plugins) {
  if (flags.plugins.plugins.empty()) return {};
  if (flags.detach || flags.follow) {
    return UsageError(
        "--plugin goes with neither --detach nor --follow; compare metric adds "
        "to a comparison that has ended");
  }
  std::vector<std::string> taken;
  MSITCTL_RETURN_IF_FAILED(GetMetrics(session, taken));
  return StartPlugins(flags.plugins, taken, session.interrupts(), plugins);
}

// Makes the comparison. Its name may stay unknown though it was made.
Outcome Create(Session& session, const v1::CreateComparisonRequest& request,
               v1::Comparison& comparison) {
  Outcome outcome = session.UnaryToTheEnd([&](grpc::ClientContext& context) {
    return session.comparisons().CreateComparison(&context, request,
                                                  &comparison);
  });
  if (IsTimeout(outcome)) {
    outcome.error +=
        "; whether the comparison was made and goes on is not known, msitctl "
        "compare list tells";
  }
  return outcome;
}

// Measures with plug-ins what is over, and prints it.
Outcome Print(Session& session, const CompareFlags& flags,
              const std::vector<v1::Verdict>* verdicts,
              std::vector<std::unique_ptr<Plugin>>& plugins,
              std::chrono::steady_clock::time_point start,
              v1::Comparison& comparison) {
  const auto elapsed = std::chrono::steady_clock::now() - start;
  std::vector<MetricCounts> counts;
  if (!plugins.empty() && comparison.state() == v1::Comparison::DONE) {
    MSITCTL_RETURN_IF_FAILED(TellWhetherItGoesOn(
        AddOwnMetrics(session, plugins, flags.plugins.pair_bytes_max, {},
                      comparison, counts),
        comparison));
  }
  ListFlags list = flags.list;
  if (session.is_table() && !flags.limit_is_given) list.limit = kTableRows;
  MSITCTL_RETURN_IF_FAILED(TellWhetherItGoesOn(
      PrintComparison(session, comparison, elapsed, verdicts, list),
      comparison));
  TellLayoutHints(comparison);
  TellIdleRules(comparison);
  Outcome measured;
  if (!counts.empty()) measured = TellOfProblems(plugins, counts);
  const Outcome outcome = OutcomeOf(comparison, list.allow_partial);
  return outcome.ok() ? measured : outcome;
}

}  // namespace

Outcome RunComparison(Session& session, const CompareFlags& flags) {
  if (flags.rows != "fail" && flags.rows != "all" && flags.rows != "none") {
    return UsageError(
        fmt::format("--rows \"{}\" is not fail, all or none", flags.rows));
  }
  v1::CreateComparisonRequest request;
  MSITCTL_RETURN_IF_FAILED(MakeRequest(flags, request));
  std::vector<std::unique_ptr<Plugin>> plugins;
  MSITCTL_RETURN_IF_FAILED(StartPluginsOf(session, flags, plugins));
  std::vector<v1::Verdict> selected;
  if (flags.rows == "fail") selected = {v1::FAIL, v1::UNMATCHED};
  const auto* const verdicts = flags.rows == "none" ? nullptr : &selected;
  std::unique_ptr<RowLines> lines;
  if (flags.follow && !flags.detach) {
    MSITCTL_RETURN_IF_FAILED(
        RowLines::Create(session, verdicts, flags.list, lines));
  }
  v1::Comparison comparison;
  if (flags.follow) {
    MSITCTL_RETURN_IF_FAILED(AwaitRun(session, flags.golden));
    MSITCTL_RETURN_IF_FAILED(AwaitRun(session, flags.target));
  }
  const auto start = std::chrono::steady_clock::now();
  {
    const Interrupts::Hold hold(session.interrupts());
    MSITCTL_RETURN_IF_FAILED(Create(session, request, comparison));
    if (flags.detach) return PrintOne(session, comparison, "name");
    if (!flags.follow) {
      MSITCTL_RETURN_IF_FAILED(Wait(session, comparison));
    }
  }
  if (flags.follow) {
    return Follow(session, flags, verdicts, *lines, comparison, start);
  }
  return Print(session, flags, verdicts, plugins, start, comparison);
}

}  // namespace msitd::ctl
