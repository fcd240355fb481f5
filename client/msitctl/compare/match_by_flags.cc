// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/match_by_flags.h"

#include <fmt/format.h>

#include <cstdio>

#include "client/ask/query/exit_code.h"
#include "client/ask/text/text.h"

namespace msitd::msitctl {
namespace {

std::string SourceText(const std::string& source) {
  return source.empty() ? "none" : ask::Printable(source);
}

}  // namespace

ask::Outcome MatchByFlags(Invocation& invocation, const std::string& golden,
                          const std::string& target,
                          const fill::RunSources& sources,
                          const MatchFlags& flags,
                          std::optional<fill::RunMatch>& out) {
  if (flags.matcher == "none") return {};
  match::MatchOptions options;
  MSITCTL_RETURN_IF_FAILED(ToMatchOptions(flags, options));
  options.joins_ranks = fill::JoinsRanks(sources);
  const bool is_auto = flags.matcher == "auto";
  ask::Outcome outcome = fill::MatchRuns(
      invocation, golden, target, sources,
      is_auto ? std::nullopt : match::ParseMatcher(flags.matcher), options,
      out);
  if (is_auto && outcome.exit_code == ask::kExitUsage) {
    outcome.error += "; to compare by names, use --match none";
  }
  return outcome;
}

void TellOfMatch(const fill::RunMatch& match, const std::string& golden,
                 const std::string& target) {
  size_t expected_count = 0;
  size_t unmatched_count = 0;
  size_t record_count = 0;
  for (const match::LeftTensors& left : match.mapping.left) {
    (left.is_expected ? expected_count : unmatched_count) += left.count;
    record_count += left.record_count;
  }
  fmt::print(
      stderr,
      "msitctl: note: sources {} and {}: {} pairs of tensors by {}, {} tensors "
      "need no counterpart, {} unmatched{}; all calls of a tensor count once\n"
      "msitctl: note: for the reasons: msitctl run match {} {}; to compare by "
      "names: --match none\n",
      SourceText(match.sources.golden), SourceText(match.sources.target),
      match.mapping.pair_count, match::MatcherName(match.matcher),
      expected_count, unmatched_count,
      match::RecordsText(expected_count + unmatched_count, record_count),
      ask::Printable(golden), ask::Printable(target));
}

void TellNotes(const match::Mapping& mapping) {
  for (const std::string& text : mapping.notes) {
    fmt::print(stderr, "msitctl: note: {}\n", ask::Printable(text));
  }
}

void TellOfLeft(const match::Mapping& mapping) {
  TellNotes(mapping);
  for (const match::LeftTensors& left : mapping.left) {
    std::string examples = fmt::format("{}", fmt::join(left.examples, ", "));
    if (left.count > left.examples.size()) examples += ", ...";
    fmt::print(stderr, "msitctl: note: {} {} tensors{} {}: {} ({})\n",
               left.count, left.is_golden ? "golden" : "target",
               match::RecordsText(left.count, left.record_count),
               left.is_expected ? "need no counterpart" : "unmatched",
               ask::Printable(left.reason), ask::Printable(examples));
  }
}

}  // namespace msitd::msitctl
