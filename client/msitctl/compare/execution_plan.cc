// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/execution_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/ask/text/text.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/engine_pairs.h"
#include "client/msitctl/compare/flag_conflicts.h"
#include "client/msitctl/compare/match_by_flags.h"
#include "client/msitctl/compare/metric.h"
#include "client/msitctl/compare/report.h"
#include "client/msitctl/compare/run_place.h"
#include "client/msitctl/verb/worker.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

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

// Called before the comparison is created, so that an invalid plug-in is
// reported at once.
ask::Outcome StartPluginsOf(
    Invocation& invocation, const CompareFlags& flags,
    std::vector<std::unique_ptr<ask::Plugin>>& plugins) {
  if (flags.plugins.plugins.empty()) return {};
  std::vector<v1::Metric> taken;
  MSITCTL_RETURN_IF_FAILED(invocation.GetMetrics(taken));
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
           all("--target-layout", flags.matching.layouts.target)},
          {"matching.golden_views",
           all("--golden-view", flags.matching.views.golden)},
          {"matching.target_views",
           all("--target-view", flags.matching.views.target)}};
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
  MSITCTL_RETURN_IF_FAILED(invocation.GetMetrics(metrics));
  WarnOfDirections(policy, rule_sources, metrics);
  return {};
}

// Called before the comparison is created, which may take long.
ask::Outcome CheckColumns(Invocation& invocation, const ExecutionPlan& plan) {
  if (plan.list.columns.empty()) return {};
  v1::Comparison comparison = plan.asked();
  for (const auto& plugin : plan.plugins) {
    comparison.add_custom_metrics(plugin->metric());
  }
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(RowLayout(invocation, comparison),
                               invocation.print_options(plan.list.columns),
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

// Reads which tools made the runs. The error that a run does not exist is left
// to the comparison, which names the flag.
ask::Outcome ReadTools(Invocation& invocation, const CompareFlags& flags,
                       fill::RunSources& sources) {
  ask::Outcome outcome =
      fill::ReadSources(invocation, flags.golden, flags.target, sources);
  if (flags.match.matcher != "auto") return outcome;
  if (!outcome.missing_run.empty()) {
    sources = {};
    return {};
  }
  for (const std::string& run : sources.without_modules) {
    fmt::print(stderr,
               "msitctl: note: run {}: the bytes of the document with its "
               "modules are gone, so that its tensors are paired by names\n",
               ask::Printable(run));
  }
  const auto is = [&outcome](grpc::StatusCode code) {
    return outcome.exit_code == ask::ExitCodeOf(code);
  };
  const bool can_compare_by_names = outcome.exit_code == ask::kExitUsage ||
                                    (outcome.exit_code > ask::kExitDaemonBase &&
                                     outcome.exit_code < ask::kExitExecFailed &&
                                     !is(grpc::StatusCode::UNAVAILABLE) &&
                                     !is(grpc::StatusCode::INVALID_ARGUMENT));
  if (can_compare_by_names) {
    outcome.error += "; to compare by names, use --match none";
  }
  return outcome;
}

// Pairs the tensors as required by the tools of both runs. A run that is still
// growing cannot be matched.
ask::Outcome PairByTools(Invocation& invocation, const CompareFlags& flags,
                         ExecutionPlan& plan) {
  // Matchers read graphs and files of runs on a single daemon.
  if (invocation.node_fanout() != nullptr || plan.is_far()) return {};
  if (flags.match.matcher == "none") return {};
  if (SaysPairs(flags.matching) || flags.follow) return {};
  // Otherwise, the comparison would try to connect again.
  MSITCTL_RETURN_IF_FAILED(invocation.Connect());
  fill::RunSources sources;
  MSITCTL_RETURN_IF_FAILED(ReadTools(invocation, flags, sources));
  if (fill::JoinsRanks(sources) && !SaysRanks(flags)) {
    FitRanks(sources, *plan.request.mutable_comparison()->mutable_matching());
  }
  std::optional<fill::RunMatch> match;
  MSITCTL_RETURN_IF_FAILED(MatchByFlags(invocation, flags.golden, flags.target,
                                        sources, flags.match, match));
  if (!match.has_value()) return {};
  TellOfMatch(*match, flags.golden, flags.target);
  if (match->matcher == match::Matcher::kMsprobe) {
    TellNotes(match->mapping);
  }
  MSITCTL_RETURN_IF_FAILED(
      RelyOnMapping(invocation, flags, match->mapping, SaysRanks(flags), plan));
  plan.mapping = fill::ToText(match->mapping);
  if (plan.mapping.empty()) return {};
  if (plan.mode == ExecutionMode::kInParts) {
    return ask::UsageError(
        "--engine cannot be combined with runs of these tools: a comparison "
        "in parts pairs tensors by name only, and they need a mapping. Omit "
        "--engine, or use --match none");
  }
  if (match->mapping.pairs_others) {
    plan.request.mutable_comparison()
        ->mutable_matching()
        ->mutable_mapping()
        ->set_pair_others(true);
  }
  return {};
}

ExecutionMode ModeOf(const CompareFlags& flags) {
  if (flags.parts.asked_for()) return ExecutionMode::kInParts;
  if (flags.detach) return ExecutionMode::kDetach;
  return flags.follow ? ExecutionMode::kFollow : ExecutionMode::kOnce;
}

}  // namespace

ask::Outcome PlanExecution(Invocation& invocation, CompareFlags flags,
                           ExecutionPlan& plan) {
  MSITCTL_RETURN_IF_FAILED(TakePlaces(invocation, flags));
  MSITCTL_RETURN_IF_FAILED(SettleMatcher(flags.match));
  MSITCTL_RETURN_IF_FAILED(
      CheckFlags(GivenOperands(flags, invocation.node_fanout() != nullptr)));
  MSITCTL_RETURN_IF_FAILED(UseWorker(invocation, flags.at));
  plan.mode = ModeOf(flags);
  plan.parts = flags.parts;
  if (plan.mode == ExecutionMode::kInParts) {
    plan.parts.out = flags.out;
  } else if (!flags.out.empty()) {
    MSITCTL_RETURN_IF_FAILED(CheckReportFile(flags.out));
    plan.report_file = flags.out;
  }
  std::vector<std::string> rule_sources;
  MSITCTL_RETURN_IF_FAILED(MakeRequest(flags, plan.request, rule_sources));
  MSITCTL_RETURN_IF_FAILED(StartPluginsOf(invocation, flags, plan.plugins));
  plan.pair_bytes_max = flags.plugins.pair_bytes_max;
  if (flags.rows == "fail") plan.verdicts = {v1::FAIL, v1::UNMATCHED};
  if (flags.rows == "all") plan.verdicts.emplace();
  plan.list = flags.list;
  if (invocation.is_table() && !flags.limit_is_given &&
      plan.mode != ExecutionMode::kFollow) {
    plan.list.limit = kTableRows;
  }
  MSITCTL_RETURN_IF_FAILED(CheckColumns(invocation, plan));
  MSITCTL_RETURN_IF_FAILED(
      TellOfDirections(invocation, plan.asked().policy(), rule_sources));
  MSITCTL_RETURN_IF_FAILED(PairByTools(invocation, flags, plan));
  plan.fields = FieldsOf(flags, std::move(rule_sources));
  plan.mapping_file = flags.matching.mapping_file;
  plan.selection = flags.selection;
  plan.python = flags.plugins.python;
  return {};
}

}  // namespace msitd::msitctl
