// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/run_matcher.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/ask/query/connection.h"
#include "client/ask/query/paging.h"
#include "client/ask/query/together.h"
#include "client/foreign/fill/run_facts.h"
#include "client/foreign/match/engine/engine_run.h"
#include "protos/base/request.h"
#include "protos/base/source_label.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

struct Source {
  std::string run;
  std::string tool = {};
  int32_t ranks = 0;
  ModuleSearch modules = {};
};

// Searches for the modules before it is known whether they are needed, because
// the two calls then take one round trip.
ask::Outcome ReadSource(ask::Connection& connection, Source& source) {
  v1::Run info;
  ask::Outcome outcome;
  ask::Together(
      connection,
      [&] {
        outcome = connection.AskByName(&v1::RunService::Stub::GetRun,
                                       source.run, info);
      },
      [&] { TryToFindModules(connection, source.run, source.modules); });
  MSITCTL_RETURN_IF_FAILED(outcome);
  const auto label = info.labels().find(kSourceLabel);
  if (label != info.labels().end()) source.tool = label->second;
  source.ranks = info.world_size();
  return {};
}

// Determines the tool of a run without a label from its modules. Leaves it
// empty if they are of no known engine.
ask::Outcome ReadEngine(ask::Connection& connection, Source& source) {
  if (!source.tool.empty()) return {};
  if (!source.modules.has_ended) {
    MSITCTL_RETURN_IF_FAILED(
        FindModules(connection, source.run, source.modules));
  }
  if (!source.modules.tree.has_value()) return {};
  match::RunFacts facts;
  facts.run = source.run;
  MSITCTL_RETURN_IF_FAILED(
      ReadModuleTree(connection, *source.modules.tree, facts));
  source.tool = match::EngineOf(facts.files);
  return {};
}

}  // namespace

ask::Outcome ReadSources(ask::Connection& connection, const std::string& golden,
                         const std::string& target, RunSources& sources) {
  Source of_golden = {.run = golden};
  Source of_target = {.run = target};
  ask::Outcome golden_outcome;
  ask::Outcome target_outcome;
  ask::Together(
      connection, [&] { golden_outcome = ReadSource(connection, of_golden); },
      [&] { target_outcome = ReadSource(connection, of_target); });
  MSITCTL_RETURN_IF_FAILED(golden_outcome);
  MSITCTL_RETURN_IF_FAILED(target_outcome);
  sources.golden = of_golden.tool;
  sources.target = of_target.tool;
  sources.golden_ranks = of_golden.ranks;
  sources.target_ranks = of_target.ranks;
  // Runs that hooks recorded have no label.
  if (golden == target) return {};
  for (const std::string* const tool : {&sources.golden, &sources.target}) {
    if (!tool->empty() && !match::IsEngine(*tool)) return {};
  }
  ask::Together(
      connection, [&] { golden_outcome = ReadEngine(connection, of_golden); },
      [&] { target_outcome = ReadEngine(connection, of_target); });
  MSITCTL_RETURN_IF_FAILED(golden_outcome);
  for (const Source* const source : {&of_golden, &of_target}) {
    if (source->tool.empty() && source->modules.lacks_bytes) {
      sources.without_modules.push_back(source->run);
    }
  }
  sources.golden = of_golden.tool;
  // A target without such a golden run is not matched, so that its modules do
  // not matter.
  if (sources.golden.empty()) return {};
  sources.target = of_target.tool;
  return target_outcome;
}

ask::Outcome FindRequests(ask::Connection& connection, const std::string& run,
                          bool& has_requests) {
  v1::ListTensorsRequest request;
  request.set_run(run);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_DOCUMENT);
  request.mutable_filter()->add_op_patterns(std::string(kRequestOpPrefix) +
                                            "*");
  v1::ListTensorsResponse response;
  has_requests = false;
  return ask::ForEachRow(
      connection, &v1::TensorService::Stub::ListTensors, request, "tensors", 1,
      [&](const google::protobuf::Message&) {
        has_requests = true;
        return false;
      },
      response);
}

bool JoinsRanks(const RunSources& sources) {
  if (sources.golden_ranks == 0 || sources.target_ranks == 0 ||
      sources.golden_ranks == sources.target_ranks) {
    return false;
  }
  const auto matcher = match::ChooseMatcher(sources.golden, sources.target,
                                            /*is_same_run=*/false);
  return matcher == match::Matcher::kTorchAtb ||
         matcher == match::Matcher::kTorch;
}

ask::Outcome MatchRuns(ask::Connection& connection, const std::string& golden,
                       const std::string& target, const RunSources& sources,
                       std::optional<match::Matcher> matcher,
                       const match::MatchOptions& options,
                       std::optional<RunMatch>& out) {
  const bool is_auto = !matcher.has_value();
  if (is_auto) {
    matcher =
        match::ChooseMatcher(sources.golden, sources.target, golden == target);
  }
  if (!matcher.has_value()) return {};
  match::RunFacts golden_facts;
  golden_facts.run = golden;
  golden_facts.source = sources.golden;
  match::RunFacts target_facts;
  target_facts.run = target;
  target_facts.source = sources.target;
  const bool all_constructs = options.msprobe.has_layers;
  ask::Outcome of_golden;
  ask::Outcome of_target;
  ask::Together(
      connection,
      [&] {
        of_golden = ReadRunFacts(connection, golden_facts, all_constructs);
      },
      [&] {
        of_target = ReadRunFacts(connection, target_facts, all_constructs);
      });
  MSITCTL_RETURN_IF_FAILED(of_golden);
  MSITCTL_RETURN_IF_FAILED(of_target);
  // Two engines can differ in the tensors of equal ops, and one engine in the
  // ranks that share them.
  const bool can_differ = match::IsEngine(sources.golden) &&
                          (sources.golden != sources.target ||
                           sources.golden_ranks != sources.target_ranks);
  if (is_auto && golden != target && !can_differ &&
      match::HaveSameOps(golden_facts, target_facts)) {
    return {};
  }
  match::MatchOptions all_options = options;
  all_options.golden_ranks = sources.golden_ranks;
  all_options.target_ranks = sources.target_ranks;
  auto mapping =
      match::Match(*matcher, golden_facts, target_facts, all_options);
  if (!mapping.ok()) {
    return ask::UsageError(fmt::format("match {}: {}",
                                       match::MatcherName(*matcher),
                                       Message(mapping.status())));
  }
  const bool names_suffice = mapping->lines.empty() && mapping->pairs_others &&
                             mapping->golden_layouts.empty() &&
                             mapping->target_layouts.empty();
  if (is_auto && names_suffice) return {};
  out = RunMatch{*matcher, sources, *std::move(mapping)};
  return {};
}

std::string ToText(const match::Mapping& mapping) {
  std::string out;
  for (const match::Line& line : mapping.lines) out += match::ToText(line);
  return out;
}

}  // namespace msitd::fill
