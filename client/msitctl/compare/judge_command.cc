// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/judge_command.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/report.h"
#include "client/msitctl/compare/wait.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/policy_flags.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/partial.h"

namespace msitd::msitctl {
namespace {

struct JudgeFlags {
  std::string name;
  PolicyFlags policy;
  std::string rows = "fail";
  std::string out;
  bool limit_is_given = false;
  ListFlags list;
};

// Returns the verdicts of the rows to print: nullopt for no rows, and none for
// all of them.
std::optional<std::vector<v1::Verdict>> VerdictsOf(const std::string& rows) {
  if (rows == "none") return std::nullopt;
  if (rows == "all") return std::vector<v1::Verdict>();
  return std::vector<v1::Verdict>{v1::FAIL, v1::UNMATCHED};
}

ask::Outcome JudgeAndWait(Invocation& invocation, const JudgeFlags& flags,
                          v1::Comparison& comparison) {
  v1::JudgeComparisonRequest request;
  request.set_comparison(flags.name);
  std::vector<std::string> rule_sources;
  MSITCTL_RETURN_IF_FAILED(
      ToPolicy(flags.policy, *request.mutable_policy(), rule_sources));
  const std::vector<FieldFlags> fields = {
      {"policy.rules", std::move(rule_sources)}};
  const ask::Interrupts::Hold hold(invocation.interrupts());
  MSITCTL_RETURN_IF_FAILED(ErrorOfFlag(
      invocation.AskToTheEnd(&v1::ComparisonService::Stub::JudgeComparison,
                             request, comparison),
      fields));
  return WaitForComparison(invocation, IfWaitEnds::kCancel, comparison);
}

ask::Outcome JudgeComparison(Invocation& invocation, const JudgeFlags& flags) {
  if (!flags.out.empty()) {
    MSITCTL_RETURN_IF_FAILED(CheckReportFile(flags.out));
  }
  const auto start = std::chrono::steady_clock::now();
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(JudgeAndWait(invocation, flags, comparison));
  const auto elapsed = std::chrono::steady_clock::now() - start;
  ListFlags list = flags.list;
  if (invocation.is_table() && !flags.limit_is_given) list.limit = kTableRows;
  const auto verdicts = VerdictsOf(flags.rows);
  MSITCTL_RETURN_IF_FAILED(TellWhetherItGoesOn(
      PrintComparison(invocation, comparison, elapsed,
                      verdicts.has_value() ? &*verdicts : nullptr, list),
      comparison));
  TellIdleRules(comparison);
  MSITCTL_RETURN_IF_FAILED(
      WriteReportFile(invocation, flags.out, list, comparison));
  return OutcomeOf(comparison, AllowedBy(list));
}

}  // namespace

void AddJudgeVerb(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<JudgeFlags>();
  auto added = std::make_shared<CLI::App*>();
  *added = &line.AddVerb(
      noun,
      {.name = "judge",
       .summary = "Judges the stored rows of a comparison by another policy.",
       .examples = "msitctl compare judge c-000001 --tol 'nl2 <= 1e-3'\n"
                   "msitctl compare judge c-000001 --preset bitwise\n"
                   "msitctl compare judge latest --rule '*.norm: max_abs <= "
                   "1e-3' --rows all -o csv\n"
                   "msitctl compare judge c-000001 --policy policy.txt --out "
                   "report.html",
       .rpcs = "ComparisonService.JudgeComparison, "
               "ComparisonService.GetComparison, "
               "ComparisonService.ListComparisonRows, "
               "ComparisonService.CancelComparison, "
               "NodeService.GetCapabilities"},
      [flags, added](Invocation& invocation) {
        flags->limit_is_given = (*added)->count("--limit") > 0;
        return JudgeComparison(invocation, *flags);
      });
  CLI::App& verb = **added;
  AddComparisonName(verb, flags->name);
  AddToleranceFlags(verb, flags->policy);
  AddPartialFlag(verb, flags->list.allow_partial);
  AddUndecidedFlag(verb, flags->list.allow_undecided);
  verb.add_option(
          "--rows", flags->rows,
          "Rows to print: fail for rows that fail or are unmatched, all, "
          "or none. Default: fail")
      ->check(OneOf({"fail", "all", "none"}))
      ->type_name("WHICH");
  verb.add_option("--out", flags->out,
                  "Write a report to this file. Its name ends in .html, .csv, "
                  ".xlsx, .jsonl, .xml (JUnit) or .md. compare report has "
                  "other formats")
      ->type_name("FILE");
  AddListFlags(verb, flags->list, RowColumnWords(),
               "Maximum number of rows to print, 0 for all; default 20 in a "
               "table, all in other formats");
}

}  // namespace msitd::msitctl
