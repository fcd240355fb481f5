// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/query/exit_code.h"
#include "client/ask/text/conclusion.h"
#include "client/ask/text/ranges.h"
#include "client/ask/text/text.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/wait.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/python_package.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

using Json = nlohmann::json;

// Limits of flags.
constexpr int64_t kSizeMebibytesMax = int64_t{1} << 20;
constexpr int64_t kCallSecondsMax = int64_t{24} * 3600;

struct VerifyFlags {
  std::string run;
  std::string golden;
  std::string ranks;
  std::string tokens;
  std::vector<std::string> ops;
  std::string suspects;
  std::string python = "python3";
  int64_t size_mebibytes = 1024;
  int64_t call_seconds = 600;
  ListFlags list;
};

std::vector<std::string> VerifyWords(const Invocation& invocation,
                                     const VerifyFlags& flags,
                                     const std::string& answer) {
  std::vector<std::string> words = {flags.python,   "-m",
                                    "msitd.verify", "--run=" + flags.run,
                                    "--answer",     answer};
  const auto add = [&words](std::string_view flag, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", flag, value));
  };
  add("--as", flags.golden);
  add("--ranks", flags.ranks);
  add("--tokens", flags.tokens);
  add("--suspects", flags.suspects);
  for (const std::string& op : ask::SplitLists(flags.ops)) add("--ops", op);
  add("--size-max", std::to_string(flags.size_mebibytes << 20));
  add("--call-timeout", std::to_string(flags.call_seconds));
  if (invocation.options().progress) words.emplace_back("--progress");
  return words;
}

// The summary that the package writes. Its texts contain names of the run.
struct VerifySummary {
  std::string comparison;
  int64_t checked_count = 0;
  int64_t covered_count = 0;
  int64_t not_checked_count = 0;
  double largest_healthy = 0;
  std::vector<std::pair<std::string, int64_t>> reasons;
  std::vector<std::string> wrong;
  // Modules that are unlike their siblings. They do not affect the verdict.
  int64_t sibling_call_count = 0;
  int64_t unlike_count = 0;
  std::vector<std::string> unlike;
  std::vector<std::pair<std::string, int64_t>> sibling_reasons;
};

int64_t NumberIn(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : int64_t{0};
}

std::vector<std::pair<std::string, int64_t>> ReasonsIn(const Json& json) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const Json& each : json.value("reasons", Json::array())) {
    if (each.is_array() && each.size() == 2 && each[0].is_string() &&
        each[1].is_number_integer()) {
      out.emplace_back(each[0].get<std::string>(), each[1].get<int64_t>());
    }
  }
  return out;
}

std::vector<std::string> TextsIn(const Json& json, const char* name) {
  std::vector<std::string> out;
  for (const Json& each : json.value(name, Json::array())) {
    if (each.is_string()) out.push_back(each.get<std::string>());
  }
  return out;
}

ask::Outcome ReadSummary(const std::string& path, VerifySummary& out) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("comparison") ||
      !json["comparison"].is_string()) {
    return ask::LocalError("python -m msitd.verify has left no answer");
  }
  out.comparison = json["comparison"].get<std::string>();
  out.checked_count = NumberIn(json, "checked_count");
  out.covered_count = NumberIn(json, "covered_count");
  out.not_checked_count = NumberIn(json, "not_checked_count");
  const auto healthy = json.find("largest_healthy");
  if (healthy != json.end() && healthy->is_number()) {
    out.largest_healthy = healthy->get<double>();
  }
  out.reasons = ReasonsIn(json);
  out.wrong = TextsIn(json, "wrong");
  const auto siblings = json.find("siblings");
  if (siblings != json.end() && siblings->is_object()) {
    out.sibling_call_count = NumberIn(*siblings, "call_count");
    out.unlike_count = NumberIn(*siblings, "unlike_count");
    out.unlike = TextsIn(*siblings, "unlike");
    out.sibling_reasons = ReasonsIn(*siblings);
  }
  return {};
}

// Returns the lines about modules that are unlike their siblings.
std::string SiblingsText(const VerifySummary& summary) {
  if (summary.sibling_call_count == 0 && summary.sibling_reasons.empty()) {
    return "siblings          none: the run has no 3 modules of one kind\n";
  }
  std::string out = fmt::format(
      "siblings          {} calls compared with those of sibling modules; {} "
      "difference{}\n",
      summary.sibling_call_count, summary.unlike_count,
      summary.unlike_count == 1 ? "" : "s");
  for (const auto& [reason, count] : summary.sibling_reasons) {
    out += fmt::format("{:>17} {}\n", count, ask::Printable(reason));
  }
  for (const std::string& each : summary.unlike) {
    out += fmt::format("unlike siblings   {}\n", ask::Printable(each));
  }
  const int64_t more =
      summary.unlike_count - static_cast<int64_t>(summary.unlike.size());
  if (more > 0) {
    out += fmt::format("unlike siblings   {} more are not listed\n", more);
  }
  return out;
}

// Returns the lines that follow the header of the comparison.
std::string SummaryText(const VerifySummary& summary) {
  std::string out = fmt::format(
      "checked           {} results; the correct ones have at most {:.3g} "
      "rounding units\n",
      summary.checked_count, summary.largest_healthy);
  if (summary.covered_count > 0) {
    out += fmt::format(
        "covered           {} results of modules whose functions are checked\n",
        summary.covered_count);
  }
  out +=
      fmt::format("not checked       {} results\n", summary.not_checked_count);
  for (const auto& [reason, count] : summary.reasons) {
    out += fmt::format("{:>17} {}\n", count, ask::Printable(reason));
  }
  for (const std::string& each : summary.wrong) {
    out += fmt::format("wrong by itself   {}\n", ask::Printable(each));
  }
  return out + SiblingsText(summary);
}

ask::Outcome RunVerify(Invocation& invocation, const VerifyFlags& flags,
                       const std::string& answer) {
  const absl::StatusOr<int> ended =
      RunPackage(invocation, VerifyWords(invocation, flags, answer));
  if (!ended.ok()) {
    return ask::LocalError(fmt::format(
        "verify needs Python with the package msitd[query] and torch, and "
        "--python {} cannot be run: {}",
        flags.python, Message(ended.status())));
  }
  switch (*ended) {
    case kPackageAnswered:
      return {};
    case kPackageUsage:
      return {ask::kExitUsage, ""};
    case kPackageLocal:
    case kPackageFailed:
      return {ask::kExitLocal, ""};
    default:
      break;
  }
  if (*ended > kPackageSignal) return ask::Interrupted();
  // Python itself has printed the reason.
  return ask::LocalError(
      fmt::format("{0} -m msitd.verify exits with {1}; it needs the package "
                  "msitd[query] and torch: {0} -m pip install 'msitd[query]' "
                  "torch",
                  flags.python, *ended));
}

ask::Outcome Verify(Invocation& invocation, const VerifyFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<ScratchFolder> scratch = ScratchFolder::Make();
  if (!scratch.ok()) return ask::LocalError(Message(scratch.status()));
  const std::string answer = scratch->File("answer");
  MSITCTL_RETURN_IF_FAILED(RunVerify(invocation, flags, answer));
  VerifySummary summary;
  MSITCTL_RETURN_IF_FAILED(ReadSummary(answer, summary));
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskByName(&v1::ComparisonService::Stub::GetComparison,
                           summary.comparison, comparison));
  const std::vector<v1::Verdict> failing = {v1::FAIL, v1::UNMATCHED};
  const auto elapsed = std::chrono::steady_clock::now() - start;
  MSITCTL_RETURN_IF_FAILED(
      PrintComparison(invocation, comparison, elapsed, &failing, flags.list));
  if (invocation.is_table()) {
    invocation.out().Write("\n" + SummaryText(summary));
  } else {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    fmt::print(stderr, "{}", SummaryText(summary));
  }
  return OutcomeOf(comparison, AllowedBy(flags.list));
}

}  // namespace

void AddVerifyCommand(CommandLine& line) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App& verb = line.AddVerb(
      line.app(),
      {.name = "verify",
       .summary = "Find the ops of a run that are wrong by themselves: make "
                  "each recorded call again in float64.",
       .examples = "msitctl verify bf16\n"
                   "msitctl verify bf16 --suspects latest",
       .rpcs = "RunService.GetRun, RunService.CreateRun, RunService.SealRun, "
               "TensorService.ListTensors, TensorService.SummarizeTensors, "
               "TensorService.ReadTensor, IngestService.WriteChunks, "
               "CaptureService.SetCapturePolicy, "
               "ComparisonService.CreateComparison, "
               "ComparisonService.ListComparisonRows, "
               "ComparisonService.AddRowMetrics"},
      [flags](Invocation& invocation) { return Verify(invocation, *flags); });
  AddRunName(verb, flags->run);
  verb.add_option("--as", flags->golden,
                  "Name of the run with the results in float64; default: "
                  "RUN.float64. If it exists, only what it lacks is checked")
      ->check(NotEmpty())
      ->type_name("NAME");
  AddTexts(verb, "--ops", flags->ops,
           "Patterns of ops to check; separated by commas, repeatable")
      ->type_name("LIST");
  verb.add_option("--ranks", flags->ranks, "Ranks to check, such as 0,2-3")
      ->check(NotEmpty())
      ->type_name("LIST");
  verb.add_option("--tokens", flags->tokens, "Tokens to check, such as 0-3,10")
      ->check(NotEmpty())
      ->type_name("LIST");
  CLI::Option* const suspects =
      verb.add_option("--suspects", flags->suspects,
                      "Check only the ops that this comparison suspects: its "
                      "first divergence and its causes")
          ->type_name("COMPARISON");
  for (const char* const other : {"--ops", "--ranks", "--tokens"}) {
    suspects->excludes(verb.get_option(other));
  }
  verb.add_option("--size-max", flags->size_mebibytes,
                  "Calls with a larger tensor, in MiB, are not checked; "
                  "default 1024")
      ->check(WholeNumber(1, kSizeMebibytesMax))
      ->type_name("MIB");
  verb.add_option("--call-timeout", flags->call_seconds,
                  "Calls that take longer, in seconds, are not checked; "
                  "default 600")
      ->check(WholeNumber(1, kCallSecondsMax))
      ->type_name("SECONDS");
  verb.add_option("--python", flags->python,
                  "Interpreter with the package msitd[query] and torch; "
                  "default python3")
      ->check(NotEmpty())
      ->type_name("PYTHON");
  AddPartialFlag(verb, flags->list.allow_partial);
  AddListFlags(verb, flags->list, RowColumnWords());
}

}  // namespace msitd::msitctl
