// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/print/printer.h"
#include "client/ask/query/endpoint.h"
#include "client/ask/query/run_names.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/verbs.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

const std::map<std::string, v1::CaptureLevel> kLevels = {
    {"off", v1::CAPTURE_LEVEL_OFF},
    {"hash", v1::CAPTURE_LEVEL_SUMMARY},
    {"summary", v1::CAPTURE_LEVEL_SUMMARY},
    {"sample", v1::CAPTURE_LEVEL_SAMPLE},
    {"full", v1::CAPTURE_LEVEL_FULL}};

struct SetFlags {
  std::string run;
  SelectionFlags selection;
  std::string level = "full";
  std::string rules;
  std::optional<int64_t> from_token;
};

// Largest file of rules.
constexpr size_t kRulesBytesMax = size_t{16} << 20;

// Returns the rules in a file, or in the text itself if it is JSON.
absl::StatusOr<v1::CapturePolicy> RulesOf(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first != text.npos && (text[first] == '[' || text[first] == '{')) {
    return ask::ParseCaptureRules(text);
  }
  MSITD_ASSIGN_OR_RETURN(const std::string json,
                         ask::ReadTextFile(text, kRulesBytesMax));
  return ask::ParseCaptureRules(json);
}

void Note(const std::string& text) {
  fmt::print(stderr, "msitctl: note: {}\n", ask::Printable(text));
}

// Returns whether the ranges contain a token from `first` on. No range stands
// for all tokens.
bool ReachBehind(const v1::TensorFilter& filter, int64_t first) {
  return filter.tokens().empty() ||
         std::any_of(filter.tokens().begin(), filter.tokens().end(),
                     [first](const v1::TokenRange& range) {
                       return range.last() >= first;
                     });
}

// Warns if the policy records less than it seems to.
ask::Outcome TellWhatSelectsNothing(Invocation& invocation,
                                    const std::string& run,
                                    const v1::CapturePolicy& policy) {
  // The union of several rules is not known.
  if (policy.rules_size() > 1) return {};
  const v1::CaptureRule& rule = policy.rules(0);
  if (rule.level() == v1::CAPTURE_LEVEL_OFF) {
    Note(fmt::format("nothing is recorded from token {} on",
                     policy.first_token()));
    return {};
  }
  if (!ReachBehind(rule.filter(), policy.first_token())) {
    Note(
        fmt::format("nothing is recorded: the policy begins with token {}, "
                    "after all selected tokens",
                    policy.first_token()));
  }
  if (rule.filter().ranks().empty()) return {};
  v1::Run info;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskByName(&v1::RunService::Stub::GetRun, run, info));
  std::vector<int32_t> absent;
  for (const int32_t rank : rule.filter().ranks()) {
    if (info.world_size() > 0 && rank >= info.world_size()) {
      absent.push_back(rank);
    }
  }
  if (!absent.empty()) {
    Note(fmt::format("the world size is {}, so there is no rank {}",
                     info.world_size(), fmt::join(absent, ", ")));
  }
  return {};
}

ask::Outcome Set(Invocation& invocation, const SetFlags& flags) {
  const absl::StatusOr<v1::TensorFilter> filter = ToFilter(flags.selection);
  if (!filter.ok())
    return ask::UsageError(std::string(Message(filter.status())));
  v1::SetCapturePolicyRequest request;
  request.set_run(flags.run);
  if (flags.rules.empty()) {
    v1::CaptureRule& rule = *request.mutable_policy()->add_rules();
    *rule.mutable_filter() = *filter;
    rule.set_level(kLevels.at(flags.level));
  } else {
    if (filter->ByteSizeLong() > 0) {
      return ask::UsageError("--rules cannot be combined with a selection");
    }
    const absl::StatusOr<v1::CapturePolicy> rules = RulesOf(flags.rules);
    if (!rules.ok()) {
      return ask::UsageError(
          fmt::format("--rules {}", Message(rules.status())));
    }
    *request.mutable_policy() = *rules;
  }
  if (flags.from_token.has_value()) {
    request.mutable_policy()->set_first_token(*flags.from_token);
  }
  v1::Run before;
  const ask::Outcome found =
      invocation.AskByName(&v1::RunService::Stub::GetRun, flags.run, before);
  v1::CapturePolicy policy;
  MSITCTL_RETURN_IF_FAILED(invocation.AskToTheEnd(
      &v1::CaptureService::Stub::SetCapturePolicy, request, policy));
  MSITCTL_RETURN_IF_FAILED(PrintOne(invocation, policy, "revision"));
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  if (!found.missing_run.empty()) {
    Note(fmt::format("run {} did not exist and was created{}", flags.run,
                     ask::RunLikeAnother(invocation, flags.run)));
  }
  return TellWhatSelectsNothing(invocation, flags.run, policy);
}

void AddSet(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<SetFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "set",
       .summary = "Set what the clients of a run record, without a restart. "
                  "Tensors that are not selected are not recorded. Without a "
                  "selection, the level applies to all.",
       .examples = "msitctl capture set --run tp8-bf16 --ops '*.layers.3.*' "
                   "--io output --tokens 0-3,10\n"
                   "msitctl capture set --run nightly --level summary "
                   "--from-token 500\n"
                   "msitctl capture set --run nightly --level sample "
                   "--io output\n"
                   "msitctl capture set --run nightly --level off",
       .rpcs = "CaptureService.SetCapturePolicy",
       .takes_nodes = true},
      [flags](Invocation& invocation) { return Set(invocation, *flags); });
  AddRunName(verb, flags->run, "Name of the run; created if it does not exist");
  AddSelectionFlags(verb, flags->selection);
  AddRequestFlag(verb, flags->selection);
  CLI::Option* level =
      verb.add_option(
              "--level", flags->level,
              "How much of each tensor to record: full (all bytes), sample (at "
              "most 1024 elements), summary or hash (no bytes), or off")
          ->check(OneOf({"off", "hash", "summary", "sample", "full"}))
          ->type_name("LEVEL")
          ->capture_default_str();
  verb.add_option("--rules", flags->rules,
                  "Rules that replace --level and a selection: JSON as "
                  "`capture get` prints it, or a file with it; - is stdin. The "
                  "first rule that selects a tensor applies")
      ->check(NotEmpty())
      ->excludes(level)
      ->type_name("FILE");
  verb.add_option(
          "--from-token", flags->from_token,
          "Token from which the policy applies in all ranks. Default: after "
          "the highest token that any rank has begun or stored, with a margin "
          "of one token and of the tokens that the fastest rank runs in 1 to 2 "
          "seconds, so that all ranks begin together")
      ->check(WholeNumber())
      ->type_name("N");
}

// Returns the sums over all ranks.
v1::RankCoverage TotalOf(const v1::CaptureCoverage& coverage) {
  v1::RankCoverage total;
  for (const v1::RankCoverage& rank : coverage.ranks()) {
    total.set_stream_count(total.stream_count() + rank.stream_count());
    total.set_seen_count(total.seen_count() + rank.seen_count());
    total.set_filtered_count(total.filtered_count() + rank.filtered_count());
    total.set_stored_count(total.stored_count() + rank.stored_count());
    total.set_dropped_count(total.dropped_count() + rank.dropped_count());
    total.set_truncated_count(total.truncated_count() + rank.truncated_count());
    total.set_dangling_count(total.dangling_count() + rank.dangling_count());
    total.set_claimed_count(total.claimed_count() + rank.claimed_count());
    total.set_not_recorded_count(total.not_recorded_count() +
                                 rank.not_recorded_count());
    if (rank.has_open_duration()) total.mutable_open_duration();
  }
  return total;
}

struct CoverageFlags {
  std::string run;
  std::string silent_after = "10s";
  bool allow_partial = false;
};

// Returns why a rank without a stream may send nothing more; empty if this is
// expected, because this rank and the others are finished.
std::string SilenceText(const v1::RankCoverage& rank, bool others_stream) {
  switch (rank.stream_state()) {
    case v1::STREAM_STATE_NONE:
      return others_stream ? "it has not connected yet" : "";
    case v1::STREAM_STATE_FINISHED:
      return others_stream ? "its client closed the last one" : "";
    case v1::STREAM_STATE_BROKEN:
      return "the last stream was interrupted";
    default:
      return "";
  }
}

void TellOfSilentRanks(const v1::CaptureCoverage& coverage,
                       std::chrono::milliseconds silent_after) {
  const bool others_stream = std::any_of(
      coverage.ranks().begin(), coverage.ranks().end(), [](const auto& rank) {
        return rank.stream_state() == v1::STREAM_STATE_OPEN;
      });
  for (const v1::RankCoverage& rank : coverage.ranks()) {
    const std::string why = SilenceText(rank, others_stream);
    const google::protobuf::Duration& silent = rank.streamless_duration();
    const std::chrono::milliseconds time(silent.seconds() * 1000 +
                                         silent.nanos() / 1'000'000);
    if (why.empty() || time < silent_after) continue;
    fmt::print(stderr, "msitctl: note: rank {} has had no stream for {}: {}\n",
               rank.rank(),
               ask::HumanDuration(static_cast<double>(time.count()) / 1000),
               why);
  }
}

// Warns if ranks have opened different numbers of clients. Each rank of a
// launch counts its recordings by itself, and equal numbers belong to the same
// recording. After a recording that only some ranks made, the numbers no longer
// match.
void TellOfUnequalRecordings(const v1::CaptureCoverage& coverage) {
  const v1::RankCoverage* fewest = nullptr;
  const v1::RankCoverage* most = nullptr;
  for (const v1::RankCoverage& rank : coverage.ranks()) {
    // Ranks that are still streaming may yet record as often as the others.
    if (rank.stream_state() == v1::STREAM_STATE_OPEN) return;
    if (rank.stream_count() == 0) continue;
    if (fewest == nullptr || rank.stream_count() < fewest->stream_count()) {
      fewest = &rank;
    }
    if (most == nullptr || rank.stream_count() > most->stream_count()) {
      most = &rank;
    }
  }
  if (most == nullptr || most->stream_count() == fewest->stream_count()) return;
  Note(fmt::format(
      "rank {} has recorded {} times, and rank {} {} time{}. After a recording "
      "that only some ranks made, equal token numbers may not match across "
      "ranks",
      most->rank(), most->stream_count(), fewest->rank(),
      fewest->stream_count(), fewest->stream_count() == 1 ? "" : "s"));
}

// Lists the ranks whose own summaries are wrong.
void TellOfFalseDigests(const v1::CaptureCoverage& coverage) {
  for (const v1::RankCoverage& rank : coverage.ranks()) {
    if (rank.false_count() == 0) continue;
    Note(fmt::format(
        "rank {} sent wrong summaries: {} of {} checked summaries do not match "
        "the bytes. Do not trust its {} tensors with summaries of its own",
        rank.rank(), rank.false_count(), rank.checked_count(),
        rank.claimed_count()));
  }
}

// A reason for which ranks did not record something.
struct Reason {
  int64_t count = 0;
  int64_t rank_count = 0;
  int32_t first_rank = 0;
  std::string first;  // Op and index.
};

// Reasons that are listed here. The JSON output has all of them.
constexpr size_t kReasonsShown = 10;

void TellOfNotRecorded(const v1::CaptureCoverage& coverage) {
  std::map<std::string, Reason> reasons;
  for (const v1::RankCoverage& rank : coverage.ranks()) {
    for (const v1::NotRecorded& told : rank.not_recorded()) {
      if (told.is_harmless()) continue;
      Reason& reason = reasons[told.reason()];
      reason.count += told.count();
      if (reason.rank_count++ > 0) continue;
      reason.first_rank = rank.rank();
      reason.first =
          told.op() + (told.index().empty() ? "" : " ") + told.index();
    }
  }
  std::vector<std::pair<std::string, Reason>> sorted(reasons.begin(),
                                                     reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.count > b.second.count;
                   });
  for (size_t i = 0; i < std::min(sorted.size(), kReasonsShown); ++i) {
    const auto& [text, reason] = sorted[i];
    Note(fmt::format("{} not recorded in {} rank{}, first in rank {}{}{}: {}",
                     reason.count == 0 ? "an unknown number of tensors"
                                       : std::to_string(reason.count),
                     reason.rank_count, reason.rank_count == 1 ? "" : "s",
                     reason.first_rank, reason.first.empty() ? "" : " at ",
                     reason.first, text));
  }
  if (sorted.size() > kReasonsShown) {
    Note(fmt::format(
        "not recorded for {} other reasons; to list them, use -o json",
        sorted.size() - kReasonsShown));
  }
}

ask::ListLayout CoverageLayout(const v1::RankCoverage& total) {
  ask::ListLayout layout;
  layout.response = v1::CaptureCoverage::descriptor();
  layout.field = "ranks";
  layout.columns = fmt::format(
      "rank,streams?=stream_count,seen=seen_count,filtered?=filtered_count,"
      "asked?=asked_count,stored=stored_count,repeated?=repeated_count,"
      "conflicts?=conflict_count,{}dropped?=dropped_count,"
      "truncated?=truncated_count,pending?=pending_count,lost?=lost_count,"
      "degraded?=degraded_count,{}{}{}stream=stream_state",
      total.dangling_count() > 0 ? "dangling=dangling_count," : "",
      total.claimed_count() > 0
          ? "claimed?=claimed_count,checked?=checked_count,false?=false_count,"
          : "",
      total.not_recorded_count() > 0 ? "not_recorded=not_recorded_count," : "",
      total.has_open_duration()
          ? "recording?=recording_duration,overhead?=overhead,"
          : "");
  layout.name = "rank";
  return layout;
}

ask::Outcome Coverage(Invocation& invocation, const CoverageFlags& flags) {
  const auto silent_after = ask::ParseDuration(flags.silent_after);
  if (!silent_after.ok()) {
    return ask::UsageError(
        fmt::format("--silent-after: {}", Message(silent_after.status())));
  }
  v1::CaptureCoverage coverage;
  MSITCTL_RETURN_IF_FAILED(invocation.AskByName(
      &v1::CaptureService::Stub::GetCaptureCoverage, flags.run, coverage));
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(CoverageLayout(TotalOf(coverage)),
                               invocation.print_options(), invocation.out()));
  PartialNotice partial(invocation);
  partial.See(flags.run, coverage);
  for (const v1::RankCoverage& rank : coverage.ranks()) printer->Add(rank);
  printer->Finish(coverage);
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  TellOfSilentRanks(coverage, *silent_after);
  TellOfUnequalRecordings(coverage);
  TellOfFalseDigests(coverage);
  TellOfNotRecorded(coverage);
  const v1::RankCoverage total = TotalOf(coverage);
  // Hooks store documents about the model even if they record no tensor.
  v1::Run run;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskByName(&v1::RunService::Stub::GetRun, flags.run, run));
  const int64_t document_count = run.counters().document_count();
  if (total.stored_count() > document_count) {
    return partial.End(flags.allow_partial);
  }
  if (total.stream_count() == 0) {
    return {ask::kExitPolicyFailed,
            "nothing is stored: no client has connected"};
  }
  return {
      ask::kExitPolicyFailed,
      fmt::format("nothing is stored{}: of {} tensors, {} were filtered by "
                  "the capture policy, {} dropped, {} truncated, {} lost",
                  document_count > 0 ? " except documents about the model" : "",
                  total.seen_count() - total.stored_count(),
                  total.filtered_count(), total.dropped_count(),
                  total.truncated_count(), total.lost_count())};
}

void AddCoverage(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<CoverageFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "coverage",
       .summary = "Print how many tensors of each rank were stored, filtered, "
                  "dropped or truncated. Exits with 1 if nothing was stored.",
       .examples = "msitctl capture coverage tp8-bf16",
       .rpcs = "CaptureService.GetCaptureCoverage",
       .takes_nodes = true},
      [flags](Invocation& invocation) { return Coverage(invocation, *flags); });
  AddRunName(verb, flags->run);
  AddPartialFlag(verb, flags->allow_partial);
  verb.add_option("--silent-after", flags->silent_after,
                  "Report ranks that have had no stream for at least this long")
      ->capture_default_str()
      ->type_name("DURATION");
}

}  // namespace

void AddCaptureCommands(CommandLine& line) {
  CLI::App& noun =
      line.AddNoun("capture", "Captures: what the clients of a run record.",
                   "msitctl capture set --run tp8-bf16 --ops '*.mlp'\n"
                   "msitctl capture coverage tp8-bf16");
  AddNamedVerb(line, noun,
               {.name = "get",
                .summary = "Print what the clients of a run record.",
                .examples = "msitctl capture get --run tp8-bf16",
                .rpcs = "CaptureService.GetCapturePolicy",
                .takes_nodes = true},
               AddRunName, "revision",
               &v1::CaptureService::Stub::GetCapturePolicy);
  AddSet(line, noun);
  AddCoverage(line, noun);
}

}  // namespace msitd::msitctl
