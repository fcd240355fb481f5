// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/ask/text/partial_text.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/flag_conflicts.h"
#include "client/msitctl/compare/follow.h"
#include "client/msitctl/compare/kept_note.h"
#include "client/msitctl/compare/layout_hints.h"
#include "client/msitctl/compare/mapping_attachment.h"
#include "client/msitctl/compare/match_by_flags.h"
#include "client/msitctl/compare/metric.h"
#include "client/msitctl/compare/run_place.h"
#include "client/msitctl/compare/wait.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/selection_note.h"
#include "client/msitctl/verb/worker.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// The default number of rows below the header of a table.
constexpr int64_t kTableRows = 20;

ask::Outcome MakeRequest(const CompareFlags& flags,
                         v1::CreateComparisonRequest& request,
                         std::vector<std::string>& rule_sources) {
  if (flags.golden.empty() || flags.target.empty()) {
    return ask::UsageError("name two runs: compare run GOLDEN TARGET");
  }
  v1::Comparison& comparison = *request.mutable_comparison();
  comparison.set_golden_run(flags.golden);
  comparison.set_target_run(flags.target);
  comparison.set_golden_source(flags.golden_source);
  comparison.set_target_source(flags.target_source);
  if (flags.read == "unproven")
    comparison.set_reading(v1::Comparison::UNPROVEN);
  if (flags.read == "samples") comparison.set_reading(v1::Comparison::SAMPLES);
  v1::TensorFilter filter;
  MSITCTL_ASSIGN_OR_USAGE(filter, ToFilter(flags.selection));
  if (filter.ByteSizeLong() > 0) *comparison.mutable_filter() = filter;
  v1::Matching matching;
  MSITCTL_RETURN_IF_FAILED(ToMatching(flags.matching, matching));
  matching.set_backward_by_number(flags.match.matcher == "none");
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
  MSITCTL_RETURN_IF_FAILED(ToPolicy(flags.policy, policy, rule_sources));
  if (policy.ByteSizeLong() > 0) *comparison.mutable_policy() = policy;
  return {};
}

// Ends the output of a followed comparison: a table and JSON have the header
// after the rows.
void PrintEnd(Invocation& invocation, const v1::Comparison& comparison,
              std::chrono::steady_clock::duration elapsed,
              ask::Allowed allowed) {
  PartialNotice(invocation).See(comparison);
  if (invocation.is_table()) {
    invocation.out().Write(VerdictHeader(comparison, elapsed,
                                         invocation.options().color, allowed));
  } else if (invocation.options().format == ask::Format::kJson) {
    invocation.out().Write(fmt::format(
        "{{{},\"comparison\":{}}}\n", VerdictMember(comparison, allowed),
        ask::ToJson(comparison, /*indented=*/false,
                    invocation.print_options())));
  }
}

// Prints rows as they arrive, then the header.
ask::Outcome Follow(Invocation& invocation, const CompareFlags& flags,
                    const std::vector<v1::Verdict>* verdicts, RowLines& lines,
                    v1::Comparison& comparison,
                    std::chrono::steady_clock::time_point start) {
  const std::string name = comparison.name();
  if (invocation.options().format == ask::Format::kName) {
    invocation.out().Write(ask::Printable(name) + "\n");
    lines.Flush();
  }
  const ask::Outcome outcome = FollowComparison(invocation, lines, comparison);
  if (outcome.exit_code == ask::kExitInterrupted) {
    return CancelAfter(outcome, invocation, name);
  }
  if (IsTimeout(outcome)) return CancelAfter(OutOfTime(name), invocation, name);
  if (!outcome.ok()) return TellWhetherItGoesOn(outcome, comparison);
  PrintEnd(invocation, comparison, std::chrono::steady_clock::now() - start,
           AllowedBy(flags.list));
  if (invocation.is_table() && verdicts != nullptr) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    NoteRowsLeftOut(comparison, *verdicts, lines.printed_count());
  }
  TellOfKept(invocation, flags.golden, flags.target);
  TellLayoutHints(comparison);
  TellIdleRules(comparison);
  return OutcomeOf(comparison, AllowedBy(flags.list));
}

// Called before the comparison is created, so that an invalid plug-in is
// reported at once.
ask::Outcome StartPluginsOf(
    Invocation& invocation, const CompareFlags& flags,
    std::vector<std::unique_ptr<ask::Plugin>>& plugins) {
  if (flags.plugins.plugins.empty()) return {};
  std::vector<v1::Metric> taken;
  MSITCTL_RETURN_IF_FAILED(GetMetrics(invocation, taken));
  return StartPlugins(flags.plugins, NamesOf(taken), invocation.interrupts(),
                      plugins);
}

// Returns the flags for the fields of a request.
std::vector<FieldFlags> FieldsOf(const CompareFlags& flags,
                                 std::vector<std::string> rule_sources) {
  const auto all = [](std::string_view flag,
                      const std::vector<std::string>& values) {
    std::vector<std::string> out;
    for (const std::string& value : values)
      out.push_back(FlagText(flag, value));
    return out;
  };
  return {{"policy.rules", std::move(rule_sources)},
          {"policy.allow_unmatched",
           all("--allow-unmatched", flags.policy.allow_unmatched)},
          {"watches", all("--watch", flags.watches)},
          {"matching.mapping",
           {flags.matching.mapping_file.empty()
                ? FlagText("--mapping", flags.matching.mapping)
                : FlagText("--mapping-file", flags.matching.mapping_file)}},
          {"matching.rewrites", all("--rewrite", flags.matching.rewrites)},
          {"matching.golden_layouts",
           all("--golden-layout", flags.matching.layouts.golden)},
          {"matching.target_layouts",
           all("--target-layout", flags.matching.layouts.target)}};
}

// Requests the metrics only if the sign in a rule may be wrong.
ask::Outcome TellOfDirections(Invocation& invocation, const v1::Policy& policy,
                              const std::vector<std::string>& rule_sources) {
  const bool may_be_wrong = std::any_of(
      policy.rules().begin(), policy.rules().end(), [](const auto& rule) {
        return rule.predicate().find('>') != std::string::npos;
      });
  if (!may_be_wrong) return {};
  std::vector<v1::Metric> metrics;
  MSITCTL_RETURN_IF_FAILED(GetMetrics(invocation, metrics));
  WarnOfDirections(policy, rule_sources, metrics);
  return {};
}

// Called before the comparison is created, which may take long.
ask::Outcome CheckColumns(
    Invocation& invocation, const CompareFlags& flags,
    const v1::Comparison& asked_for,
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins) {
  if (flags.list.columns.empty()) return {};
  v1::Comparison comparison = asked_for;
  for (const auto& plugin : plugins) {
    comparison.add_custom_metrics(plugin->metric());
  }
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(RowLayout(invocation, comparison),
                               invocation.print_options(flags.list.columns),
                               invocation.out()));
  return {};
}

// Returns true if the user specifies the pairs of tensors.
bool SaysPairs(const MatchingFlags& flags) {
  return !flags.mapping.empty() || !flags.mapping_file.empty() ||
         !flags.op_map_file.empty() || !flags.rewrites.empty() || flags.fuzzy;
}

// Returns true if the user specifies the pairs of ranks.
bool SaysRanks(const CompareFlags& flags) {
  const MatchingFlags& matching = flags.matching;
  return !matching.layouts.golden.empty() || !matching.layouts.target.empty() ||
         !matching.rank_map.empty() || !flags.selection.ranks.empty();
}

// Requests that each tensor of several ranks is joined according to sizes.
void FitRanks(const fill::RunSources& sources, v1::Matching& matching) {
  std::string flags;
  for (const bool is_golden : {true, false}) {
    if ((is_golden ? sources.golden_ranks : sources.target_ranks) == 1) {
      continue;
    }
    v1::Layout& layout = is_golden ? *matching.add_golden_layouts()
                                   : *matching.add_target_layouts();
    layout.set_op_pattern("*");
    layout.set_kind(v1::Layout::FIT);
    flags +=
        fmt::format(" --{}-layout '*=fit'", is_golden ? "golden" : "target");
  }
  fmt::print(
      stderr,
      "msitctl: note: the runs have {} and {} ranks: what these hold of a "
      "tensor is put together as sizes say, as by{}; --match none "
      "compares rank by rank\n",
      sources.golden_ranks, sources.target_ranks, flags);
}

// Pairs the tensors as required by the tools of both runs. A run that is still
// growing cannot be matched.
ask::Outcome Match(Invocation& invocation, const CompareFlags& flags,
                   v1::Comparison& comparison, std::string& mapping) {
  // Matchers read graphs and files of runs on a single daemon.
  if (invocation.node_fanout() != nullptr || IsFar(flags)) return {};
  if (flags.match.matcher == "none") return {};
  if (SaysPairs(flags.matching) || flags.follow) return {};
  const bool is_auto = flags.match.matcher == "auto";
  fill::RunSources sources;
  const ask::Outcome outcome =
      fill::ReadSources(invocation, flags.golden, flags.target, sources);
  // The comparison reports errors in a run.
  if (is_auto && outcome.exit_code != ask::kExitInterrupted && !outcome.ok()) {
    return {};
  }
  MSITCTL_RETURN_IF_FAILED(outcome);
  if (fill::JoinsRanks(sources) && !SaysRanks(flags)) {
    FitRanks(sources, *comparison.mutable_matching());
  }
  std::optional<fill::RunMatch> match;
  MSITCTL_RETURN_IF_FAILED(MatchByFlags(invocation, flags.golden, flags.target,
                                        sources, flags.match, match));
  if (!match.has_value()) return {};
  TellOfMatch(*match, flags.golden, flags.target);
  if (match->matcher == match::Matcher::kMsprobe) {
    TellNotes(match->mapping);
  }
  mapping = fill::ToText(match->mapping);
  if (!mapping.empty() && match->mapping.pairs_others) {
    comparison.mutable_matching()->mutable_mapping()->set_pair_others(true);
  }
  return {};
}

// Sets the mapping of the comparison: that of the user, or that of a matcher.
ask::Outcome Attach(Invocation& invocation, const CompareFlags& flags,
                    const std::string& matched, v1::Comparison& comparison,
                    bool& has_attached) {
  v1::Matching& matching = *comparison.mutable_matching();
  if (!flags.matching.mapping_file.empty()) {
    return AttachMapping(invocation, flags.target, flags.matching.mapping_file,
                         *matching.mutable_mapping(), has_attached);
  }
  if (matched.empty()) return {};
  return AttachMappingText(invocation, flags.target, matched,
                           *matching.mutable_mapping(), has_attached);
}

// Creates the comparison. On an error, it may have been created although its
// name is not known.
ask::Outcome Create(Invocation& invocation,
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

// Measures a finished comparison with plug-ins, and prints it.
ask::Outcome Print(Invocation& invocation, const CompareFlags& flags,
                   const std::vector<v1::Verdict>* verdicts,
                   std::vector<std::unique_ptr<ask::Plugin>>& plugins,
                   std::chrono::steady_clock::time_point start,
                   v1::Comparison& comparison) {
  const auto elapsed = std::chrono::steady_clock::now() - start;
  std::vector<MetricCounts> counts;
  if (!plugins.empty() && comparison.state() == v1::Comparison::DONE) {
    MSITCTL_RETURN_IF_FAILED(TellWhetherItGoesOn(
        AddOwnMetrics(invocation, plugins, flags.plugins.pair_bytes_max, {},
                      comparison, counts),
        comparison));
  }
  ListFlags list = flags.list;
  if (invocation.is_table() && !flags.limit_is_given) list.limit = kTableRows;
  MSITCTL_RETURN_IF_FAILED(TellWhetherItGoesOn(
      PrintComparison(invocation, comparison, elapsed, verdicts, list),
      comparison));
  if (comparison.state() == v1::Comparison::DONE &&
      ask::RowCountOf(comparison) == 0) {
    if (flags.golden_source.empty()) {
      NoteNoTensor(invocation, flags.golden, flags.selection, "");
    }
    if (flags.target_source.empty()) {
      NoteNoTensor(invocation, flags.target, flags.selection, "");
    }
  }
  if (IsFar(flags)) {
    TellUnmatched(comparison);
  } else {
    TellOfKept(invocation, flags.golden, flags.target);
  }
  TellLayoutHints(comparison);
  TellIdleRules(comparison);
  ask::Outcome measured;
  if (!counts.empty()) measured = TellOfProblems(plugins, counts);
  const ask::Outcome outcome = OutcomeOf(comparison, AllowedBy(list));
  return outcome.ok() ? measured : outcome;
}

// Lets the Python package compare, and prints the result.
ask::Outcome RunInParts(Invocation& invocation, const CompareFlags& flags,
                        const v1::CreateComparisonRequest& request,
                        std::vector<std::string> rule_sources) {
  const auto start = std::chrono::steady_clock::now();
  ListFlags list = flags.list;
  if (invocation.is_table() && !flags.limit_is_given) list.limit = kTableRows;
  ComparedParts compared;
  MSITCTL_RETURN_IF_FAILED(
      ErrorOfFlag(CompareInParts(invocation, flags.parts, flags.plugins.python,
                                 list.limit, request, compared),
                  FieldsOf(flags, std::move(rule_sources))));
  MSITCTL_RETURN_IF_FAILED(PrintParts(invocation, compared,
                                      std::chrono::steady_clock::now() - start,
                                      flags.rows != "none", list));
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  TellLayoutHints(compared.comparison);
  TellIdleRules(compared.comparison);
  return OutcomeOf(compared.comparison, AllowedBy(list));
}

}  // namespace

ask::Outcome RunComparison(Invocation& invocation, const CompareFlags& given) {
  CompareFlags flags = given;
  MSITCTL_RETURN_IF_FAILED(TakePlaces(invocation, flags));
  MSITCTL_RETURN_IF_FAILED(SettleMatcher(flags.match));
  MSITCTL_RETURN_IF_FAILED(
      CheckFlags(GivenOperands(flags, invocation.node_fanout() != nullptr)));
  MSITCTL_RETURN_IF_FAILED(UseWorker(invocation, flags.at));
  v1::CreateComparisonRequest request;
  std::vector<std::string> rule_sources;
  MSITCTL_RETURN_IF_FAILED(MakeRequest(flags, request, rule_sources));
  std::vector<std::unique_ptr<ask::Plugin>> plugins;
  MSITCTL_RETURN_IF_FAILED(StartPluginsOf(invocation, flags, plugins));
  MSITCTL_RETURN_IF_FAILED(
      CheckColumns(invocation, flags, request.comparison(), plugins));
  std::vector<v1::Verdict> selected;
  if (flags.rows == "fail") selected = {v1::FAIL, v1::UNMATCHED};
  const auto* const verdicts = flags.rows == "none" ? nullptr : &selected;
  v1::Comparison comparison;
  if (flags.follow) {
    MSITCTL_RETURN_IF_FAILED(AwaitRun(invocation, flags.golden));
    MSITCTL_RETURN_IF_FAILED(AwaitRun(invocation, flags.target));
  }
  std::unique_ptr<RowLines> lines;
  if (flags.follow && !flags.detach) {
    MSITCTL_RETURN_IF_FAILED(
        RowLines::Create(invocation, verdicts, flags.list, lines));
  }
  MSITCTL_RETURN_IF_FAILED(TellOfDirections(
      invocation, request.comparison().policy(), rule_sources));
  std::string matched;
  MSITCTL_RETURN_IF_FAILED(
      Match(invocation, flags, *request.mutable_comparison(), matched));
  if (flags.parts.asked_for()) {
    if (!matched.empty()) {
      return ask::UsageError(
          "--engine cannot be combined with runs of these tools: a comparison "
          "in parts pairs tensors by name only, and they need a mapping. Omit "
          "--engine, or use --match none");
    }
    return RunInParts(invocation, flags, request, std::move(rule_sources));
  }
  const bool has_mapping =
      !flags.matching.mapping_file.empty() || !matched.empty();
  const auto start = std::chrono::steady_clock::now();
  {
    const ask::Interrupts::Hold hold(invocation.interrupts());
    bool has_attached = false;
    if (has_mapping) {
      MSITCTL_RETURN_IF_FAILED(Attach(invocation, flags, matched,
                                      *request.mutable_comparison(),
                                      has_attached));
    }
    ask::Outcome created = Create(invocation, request, comparison);
    if (has_attached) {
      DetachIfRefused(invocation, flags.target,
                      request.comparison().matching().mapping(), created);
    }
    MSITCTL_RETURN_IF_FAILED(ErrorOfFlag(
        std::move(created), FieldsOf(flags, std::move(rule_sources))));
    if (flags.detach) return PrintOne(invocation, comparison, "name");
    if (!flags.follow) {
      MSITCTL_RETURN_IF_FAILED(
          WaitForComparison(invocation, IfWaitEnds::kCancel, comparison));
    }
  }
  if (flags.follow) {
    return Follow(invocation, flags, verdicts, *lines, comparison, start);
  }
  return Print(invocation, flags, verdicts, plugins, start, comparison);
}

}  // namespace msitd::msitctl
