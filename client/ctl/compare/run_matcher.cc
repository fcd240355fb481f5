// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/compare/run_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "client/ctl/compare/run_facts.h"
#include "client/text/text.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

Outcome ReadSource(Invocation& invocation, const std::string& run,
                   std::string& source) {
  v1::Run info;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskByName(&v1::RunService::Stub::GetRun, run, info));
  const auto label = info.labels().find(kSourceLabel);
  if (label != info.labels().end()) source = label->second;
  return {};
}

bool HaveSameOps(const match::RunFacts& golden, const match::RunFacts& target) {
  std::unordered_set<std::string_view> names;
  for (const match::OpFacts& op : golden.ops) names.insert(op.op);
  return golden.ops.size() == target.ops.size() &&
         std::all_of(target.ops.begin(), target.ops.end(),
                     [&names](const match::OpFacts& op) {
                       return names.contains(op.op);
                     });
}

std::string SourceText(const std::string& source) {
  return source.empty() ? "none" : Printable(source);
}

}  // namespace

Outcome ReadSources(Invocation& invocation, const std::string& golden,
                    const std::string& target, RunSources& sources) {
  MSITCTL_RETURN_IF_FAILED(ReadSource(invocation, golden, sources.golden));
  return ReadSource(invocation, target, sources.target);
}

Outcome MatchRuns(Invocation& invocation, const std::string& golden,
                  const std::string& target, const RunSources& sources,
                  const MatchFlags& flags, std::optional<RunMatch>& out) {
  if (flags.matcher == "none") return {};
  match::MatchOptions options;
  MSITCTL_RETURN_IF_FAILED(ToMatchOptions(flags, options));
  const bool is_auto = flags.matcher == "auto";
  const std::optional<match::Matcher> matcher =
      is_auto ? match::ChooseMatcher(sources.golden, sources.target,
                                     golden == target)
              : match::ParseMatcher(flags.matcher);
  if (!matcher.has_value()) return {};
  match::RunFacts golden_facts;
  golden_facts.run = golden;
  golden_facts.source = sources.golden;
  match::RunFacts target_facts;
  target_facts.run = target;
  target_facts.source = sources.target;
  MSITCTL_RETURN_IF_FAILED(ReadRunFacts(invocation, golden_facts));
  MSITCTL_RETURN_IF_FAILED(ReadRunFacts(invocation, target_facts));
  if (is_auto && golden != target && HaveSameOps(golden_facts, target_facts)) {
    return {};
  }
  auto mapping = match::Match(*matcher, golden_facts, target_facts, options);
  if (!mapping.ok()) {
    return UsageError(
        fmt::format("--match {}: {}{}", match::MatcherName(*matcher),
                    Message(mapping.status()),
                    is_auto ? "; --match none compares by names" : ""));
  }
  out = RunMatch{*matcher, sources, *std::move(mapping)};
  return {};
}

std::string ToText(const match::Mapping& mapping) {
  std::string out;
  for (const match::Line& line : mapping.lines) out += match::ToText(line);
  return out;
}

void TellOfMatch(const RunMatch& match, const std::string& golden,
                 const std::string& target) {
  size_t expected_count = 0;
  size_t unmatched_count = 0;
  for (const match::LeftTensors& left : match.mapping.left) {
    (left.is_expected ? expected_count : unmatched_count) += left.count;
  }
  fmt::print(stderr,
             "msitctl: note: sources {} and {}: {} pairs of tensors by {}, {} "
             "tensors belong to none, {} lack theirs; run match {} {} tells "
             "why, --match none compares by names\n",
             SourceText(match.sources.golden), SourceText(match.sources.target),
             match.mapping.pair_count, match::MatcherName(match.matcher),
             expected_count, unmatched_count, Printable(golden),
             Printable(target));
}

void TellOfLeft(const match::Mapping& mapping) {
  for (const std::string& text : mapping.notes) {
    fmt::print(stderr, "msitctl: note: {}\n", Printable(text));
  }
  for (const match::LeftTensors& left : mapping.left) {
    std::string examples = fmt::format("{}", fmt::join(left.examples, ", "));
    if (left.count > left.examples.size()) examples += ", ...";
    fmt::print(stderr, "msitctl: note: {} {} tensors {}: {} ({})\n", left.count,
               left.is_golden ? "golden" : "target",
               left.is_expected ? "belong to none" : "lack theirs",
               Printable(left.reason), Printable(examples));
  }
}

}  // namespace msitd::ctl
