// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/run_matcher.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/ask/query/connection.h"
#include "client/foreign/fill/run_facts.h"
#include "protos/base/source_label.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

ask::Outcome ReadSource(ask::Connection& connection, const std::string& run,
                        std::string& source, int32_t& ranks) {
  v1::Run info;
  MSITCTL_RETURN_IF_FAILED(
      connection.AskByName(&v1::RunService::Stub::GetRun, run, info));
  const auto label = info.labels().find(kSourceLabel);
  if (label != info.labels().end()) source = label->second;
  ranks = info.world_size();
  return {};
}

}  // namespace

ask::Outcome ReadSources(ask::Connection& connection, const std::string& golden,
                         const std::string& target, RunSources& sources) {
  MSITCTL_RETURN_IF_FAILED(
      ReadSource(connection, golden, sources.golden, sources.golden_ranks));
  return ReadSource(connection, target, sources.target, sources.target_ranks);
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
  MSITCTL_RETURN_IF_FAILED(
      ReadRunFacts(connection, golden_facts, all_constructs));
  MSITCTL_RETURN_IF_FAILED(
      ReadRunFacts(connection, target_facts, all_constructs));
  if (is_auto && golden != target &&
      match::HaveSameOps(golden_facts, target_facts)) {
    return {};
  }
  auto mapping = match::Match(*matcher, golden_facts, target_facts, options);
  if (!mapping.ok()) {
    return ask::UsageError(fmt::format("match {}: {}",
                                       match::MatcherName(*matcher),
                                       Message(mapping.status())));
  }
  if (is_auto && mapping->lines.empty() && mapping->pairs_others) return {};
  out = RunMatch{*matcher, sources, *std::move(mapping)};
  return {};
}

std::string ToText(const match::Mapping& mapping) {
  std::string out;
  for (const match::Line& line : mapping.lines) out += match::ToText(line);
  return out;
}

}  // namespace msitd::fill
