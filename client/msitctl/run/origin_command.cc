// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/origin_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "client/ask/text/text.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/run/origin_follow.h"
#include "client/msitctl/run/origin_text.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/worker.h"

namespace msitd::msitctl {
namespace {

struct OriginFlags {
  std::string run;
  std::string where;
  bool strict = false;
  bool follow = false;
  bool allow_partial = false;
  std::string at;  // See AddWorkerFlag.
};

ask::Outcome Print(Invocation& invocation, const OriginFlags& flags,
                   const v1::FindOriginResponse& answer) {
  switch (invocation.options().format) {
    case ask::Format::kTable:
      invocation.out().Write(OriginText(flags.run, answer));
      return {};
    case ask::Format::kName:
      for (const auto* const list : {&answer.origins(), &answer.unknown()}) {
        for (const v1::RunOrigin& origin : *list) {
          invocation.out().Write(ask::Printable(origin.tensor().name()) + "\n");
        }
      }
      return {};
    default:
      return PrintOne(invocation, answer, /*name=*/{});
  }
}

// Returns the exit code: tensors that satisfy the condition take precedence
// over a partial answer, because they are proven.
ask::Outcome End(const v1::FindOriginResponse& answer, bool allows_partial,
                 const PartialNotice& partial) {
  if (answer.result() != v1::FindOriginResponse::NONE) {
    return {ask::kExitPolicyFailed, ""};
  }
  const bool is_whole = answer.unknown_count() == 0 &&
                        answer.incomplete_count() == 0 &&
                        answer.lost_count() == 0;
  if (!is_whole && !allows_partial) return {ask::kExitPartial, ""};
  return partial.End(allows_partial);
}

ask::Outcome FindOrigin(Invocation& invocation, const OriginFlags& flags) {
  if (flags.follow && invocation.fanout() != nullptr) {
    return ask::UsageError(
        "--follow requires a single daemon: use --endpoint instead of "
        "--endpoints");
  }
  v1::FindOriginRequest request;
  request.set_run(flags.run);
  request.set_where(flags.where);
  request.set_strict(flags.strict);
  MSITCTL_RETURN_IF_FAILED(UseWorker(invocation, flags.at));
  v1::FindOriginResponse answer;
  MSITCTL_RETURN_IF_FAILED(
      flags.follow ? FollowOrigin(invocation, request, answer)
                   : invocation.Ask(&v1::TensorService::Stub::FindOrigin,
                                    request, answer));
  PartialNotice partial(invocation);
  partial.See(flags.run, answer);
  MSITCTL_RETURN_IF_FAILED(Print(invocation, flags, answer));
  return End(answer, flags.allow_partial, partial);
}

}  // namespace

void AddOriginVerb(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<OriginFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "origin",
       .summary = "Find the op that made the first NaN or infinity of a run, "
                  "or the first tensor that meets a condition.",
       .examples = "msitctl run origin tp8-bf16\n"
                   "msitctl run origin tp8-bf16 --where 'abs_max > 65504'\n"
                   "msitctl run origin tp8-bf16 --follow",
       .rpcs = "TensorService.FindOrigin, TensorService.SummarizeTensors, "
               "RunService.GetRun, CaptureService.GetCaptureCoverage",
       .takes_nodes = true},
      [flags](Invocation& invocation) {
        const FieldFlags where{"predicate",
                               {FlagText("--where", flags->where)}};
        return ErrorOfFlag(FindOrigin(invocation, *flags), {&where, 1});
      });
  AddRunName(verb, flags->run);
  verb.add_option("--where", flags->where,
                  "Condition on count, nan_count, inf_count, zero_count, min, "
                  "max, abs_max, sum, mean, l1_norm, l2_norm, size_bytes; "
                  "default: nan_count > 0 or inf_count > 0")
      ->check(NotEmpty())
      ->type_name("PREDICATE");
  verb.add_flag("--strict", flags->strict,
                "Do not ignore tensors whose NaN or infinities are expected: "
                "attention masks, rows of a batch without a request, and "
                "memory that was not written");
  verb.add_flag("--follow", flags->follow,
                "Search until a tensor meets the condition while the run is "
                "recorded. Without one, end when the run is sealed, or when no "
                "process has recorded it for 10 s");
  AddWorkerFlag(verb, flags->at);
  AddPartialFlag(verb, flags->allow_partial);
}

}  // namespace msitd::msitctl
