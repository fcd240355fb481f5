// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/run.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/query/together.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/execution_plan.h"
#include "client/msitctl/compare/follow.h"
#include "client/msitctl/compare/kept_note.h"
#include "client/msitctl/compare/layout_hints.h"
#include "client/msitctl/compare/mapping_attachment.h"
#include "client/msitctl/compare/metric.h"
#include "client/msitctl/compare/pairing_note.h"
#include "client/msitctl/compare/report.h"
#include "client/msitctl/compare/wait.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/verb/await_run.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/selection_note.h"

namespace msitd::msitctl {
namespace {

using Clock = std::chrono::steady_clock;

// Returns null if no rows are printed.
const std::vector<v1::Verdict>* VerdictsOf(const ExecutionPlan& plan) {
  return plan.verdicts.has_value() ? &*plan.verdicts : nullptr;
}

// Sets the mapping of the comparison: that of the user, or that of a matcher.
ask::Outcome Attach(Invocation& invocation, const ExecutionPlan& plan,
                    v1::Comparison& comparison, bool& has_attached) {
  has_attached = false;
  if (plan.mapping_file.empty() && plan.mapping.empty()) return {};
  const std::string& target = comparison.target_run();
  auto& mapping = *comparison.mutable_matching()->mutable_mapping();
  return plan.mapping_file.empty()
             ? AttachMappingText(invocation, target, plan.mapping, mapping,
                                 has_attached)
             : AttachMapping(invocation, target, plan.mapping_file, mapping,
                             has_attached);
}

// On an error, the comparison may have been created although its name is not
// known.
ask::Outcome AskToCreate(Invocation& invocation,
                         const v1::CreateComparisonRequest& request,
                         v1::Comparison& comparison) {
  ask::Outcome outcome = invocation.AskToTheEnd(
      &v1::ComparisonService::Stub::CreateComparison, request, comparison);
  if (IsTimeout(outcome)) {
    outcome.error +=
        "; the comparison may have been created and may still be running; to "
        "check: msitctl compare list";
  }
  return outcome;
}

// Attaches the mapping and creates the comparison. The caller holds interrupts.
ask::Outcome Create(Invocation& invocation, const ExecutionPlan& plan,
                    v1::Comparison& comparison) {
  v1::CreateComparisonRequest request = plan.request;
  bool has_attached = false;
  MSITCTL_RETURN_IF_FAILED(
      Attach(invocation, plan, *request.mutable_comparison(), has_attached));
  ask::Outcome created = AskToCreate(invocation, request, comparison);
  if (has_attached) {
    DetachIfRefused(invocation, request.comparison().target_run(),
                    request.comparison().matching().mapping(), created);
  }
  return ErrorOfFlag(std::move(created), plan.fields);
}

// Waits until both runs of a comparison that follows them exist.
ask::Outcome AwaitRuns(Invocation& invocation, const ExecutionPlan& plan) {
  if (!plan.asked().follow()) return {};
  MSITCTL_RETURN_IF_FAILED(AwaitRun(invocation, plan.asked().golden_run()));
  return AwaitRun(invocation, plan.asked().target_run());
}

// Ends the output of a followed comparison: a table and JSON have the header
// after the rows.
void PrintEnd(Invocation& invocation, const v1::Comparison& comparison,
              std::chrono::steady_clock::duration elapsed,
              ask::Allowed allowed) {
  PartialNotice(invocation).See(comparison);
  if (invocation.is_table()) {
    invocation.out().Write(
        VerdictHeader(comparison, elapsed, allowed, StyleOf(invocation)));
  } else if (invocation.options().format == ask::Format::kJson) {
    invocation.out().Write(fmt::format(
        "{{{},\"comparison\":{}}}\n", VerdictMember(comparison, allowed),
        ask::ToJson(comparison, /*indented=*/false,
                    invocation.print_options())));
  }
}

ask::Outcome RunFollowing(Invocation& invocation, const ExecutionPlan& plan) {
  const auto* const verdicts = VerdictsOf(plan);
  std::unique_ptr<RowLines> lines;
  MSITCTL_RETURN_IF_FAILED(
      RowLines::Create(invocation, verdicts, plan.list, lines));
  MSITCTL_RETURN_IF_FAILED(AwaitRuns(invocation, plan));
  const auto start = Clock::now();
  v1::Comparison comparison;
  {
    const ask::Interrupts::Hold hold(invocation.interrupts());
    MSITCTL_RETURN_IF_FAILED(Create(invocation, plan, comparison));
  }
  const std::string name = comparison.name();
  if (invocation.options().format == ask::Format::kName) {
    invocation.out().Write(ask::Printable(name) + "\n");
    lines->Flush();
  }
  const ask::Outcome outcome = FollowComparison(invocation, *lines, comparison);
  if (outcome.exit_code == ask::kExitInterrupted) {
    return CancelAfter(outcome, invocation, name);
  }
  if (IsTimeout(outcome)) return CancelAfter(OutOfTime(name), invocation, name);
  if (!outcome.ok()) return TellWhetherItGoesOn(outcome, comparison);
  const ask::Allowed allowed = AllowedBy(plan.list);
  PrintEnd(invocation, comparison, Clock::now() - start, allowed);
  if (invocation.is_table() && verdicts != nullptr) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    NoteRowsLeftOut(comparison, *verdicts, lines->printed_count());
  }
  KeptNote(invocation, comparison.golden_run(), comparison.target_run())
      .Print();
  TellLayoutHints(comparison);
  TellPairingHints(comparison);
  TellIdleRules(comparison);
  MSITCTL_RETURN_IF_FAILED(
      WriteReportFile(invocation, plan.report_file, plan.list, comparison));
  return OutcomeOf(comparison, allowed);
}

// Prints why tensors of runs on other daemons may lack a counterpart.
void TellUnmatched(const v1::Comparison& comparison) {
  if (comparison.unmatched_count() == 0) return;
  const bool is_golden = !comparison.golden_source().empty();
  fmt::print(stderr,
             "msitctl: note: tensors were paired by their names: the graphs "
             "of run {}, which others are paired by, are not read\n",
             is_golden ? ask::RunPlaceText(comparison.golden_run(),
                                           comparison.golden_source())
                       : ask::RunPlaceText(comparison.target_run(),
                                           comparison.target_source()));
}

// Prints what explains the result of a finished comparison. `kept` is null for
// runs on other daemons.
void TellAbout(Invocation& invocation, const ExecutionPlan& plan,
               const v1::Comparison& comparison, KeptNote* kept) {
  const v1::Comparison& asked = plan.asked();
  if (comparison.state() == v1::Comparison::DONE &&
      ask::RowCountOf(comparison) == 0) {
    if (asked.golden_source().empty()) {
      NoteNoTensor(invocation, asked.golden_run(), plan.selection, "");
    }
    if (asked.target_source().empty()) {
      NoteNoTensor(invocation, asked.target_run(), plan.selection, "");
    }
  }
  kept == nullptr ? TellUnmatched(comparison) : kept->Print();
  TellLayoutHints(comparison);
  TellPairingHints(comparison);
  TellIdleRules(comparison);
}

ask::Outcome RunOnce(Invocation& invocation, const ExecutionPlan& plan) {
  const auto start = Clock::now();
  std::optional<KeptNote> kept;
  if (!plan.is_far()) {
    kept.emplace(invocation, plan.asked().golden_run(),
                 plan.asked().target_run());
  }
  v1::Comparison comparison;
  {
    const ask::Interrupts::Hold hold(invocation.interrupts());
    ask::Outcome created;
    // The metrics are needed to print the rows.
    ask::Together(
        invocation,
        [&] {
          if (plan.verdicts.has_value()) invocation.TryToGetMetrics();
        },
        [&] { created = Create(invocation, plan, comparison); });
    MSITCTL_RETURN_IF_FAILED(created);
    MSITCTL_RETURN_IF_FAILED(
        WaitForComparison(invocation, IfWaitEnds::kCancel, comparison));
  }
  const auto elapsed = Clock::now() - start;
  std::vector<MetricCounts> counts;
  if (!plan.plugins.empty() && comparison.state() == v1::Comparison::DONE) {
    MSITCTL_RETURN_IF_FAILED(TellWhetherItGoesOn(
        AddOwnMetrics(invocation, plan.plugins, plan.pair_bytes_max, {},
                      comparison, counts),
        comparison));
  }
  MSITCTL_RETURN_IF_FAILED(
      TellWhetherItGoesOn(PrintComparison(invocation, comparison, elapsed,
                                          VerdictsOf(plan), plan.list),
                          comparison));
  TellAbout(invocation, plan, comparison, kept.has_value() ? &*kept : nullptr);
  MSITCTL_RETURN_IF_FAILED(
      WriteReportFile(invocation, plan.report_file, plan.list, comparison));
  ask::Outcome measured;
  if (!counts.empty()) measured = TellOfProblems(plan.plugins, counts);
  const ask::Outcome outcome = OutcomeOf(comparison, AllowedBy(plan.list));
  return outcome.ok() ? measured : outcome;
}

ask::Outcome RunDetached(Invocation& invocation, const ExecutionPlan& plan) {
  MSITCTL_RETURN_IF_FAILED(AwaitRuns(invocation, plan));
  const ask::Interrupts::Hold hold(invocation.interrupts());
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(Create(invocation, plan, comparison));
  return PrintOne(invocation, comparison, "name");
}

ask::Outcome RunInParts(Invocation& invocation, const ExecutionPlan& plan) {
  const auto start = Clock::now();
  ComparedParts compared;
  MSITCTL_RETURN_IF_FAILED(
      ErrorOfFlag(CompareInParts(invocation, plan.parts, plan.python,
                                 plan.list.limit, plan.request, compared),
                  plan.fields));
  MSITCTL_RETURN_IF_FAILED(PrintParts(invocation, compared,
                                      Clock::now() - start,
                                      plan.verdicts.has_value(), plan.list));
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  TellLayoutHints(compared.comparison);
  TellPairingHints(compared.comparison);
  TellIdleRules(compared.comparison);
  return OutcomeOf(compared.comparison, AllowedBy(plan.list));
}

}  // namespace

ask::Outcome RunComparison(Invocation& invocation, const CompareFlags& flags) {
  ExecutionPlan plan;
  MSITCTL_RETURN_IF_FAILED(PlanExecution(invocation, flags, plan));
  switch (plan.mode) {
    case ExecutionMode::kOnce:
      return RunOnce(invocation, plan);
    case ExecutionMode::kFollow:
      return RunFollowing(invocation, plan);
    case ExecutionMode::kDetach:
      return RunDetached(invocation, plan);
    case ExecutionMode::kInParts:
      return RunInParts(invocation, plan);
  }
  return {};
}

}  // namespace msitd::msitctl
