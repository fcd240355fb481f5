// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/print/printer.h"
#include "client/ask/query/exit_code.h"
#include "client/ask/query/run_names.h"
#include "client/ask/text/text.h"
#include "client/foreign/write/writer/json_writer.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/exec/exec_command.h"
#include "client/msitctl/exec/wrong_modules.h"
#include "msitd/v1/comparison_service.grpc.pb.h"

namespace msitd::msitctl {
namespace {

// Modules that are listed. The others are counted.
constexpr size_t kNamedMax = 20;

ask::Outcome Compare(ask::Connection& connection, const std::string& golden,
                     const std::string& target, WrongModules& wrong) {
  v1::CreateComparisonRequest request;
  v1::Comparison& comparison = *request.mutable_comparison();
  comparison.set_golden_run(golden);
  comparison.set_target_run(target);
  comparison.mutable_filter()->add_ios(v1::IO_INPUT);
  comparison.mutable_filter()->add_ios(v1::IO_OUTPUT);
  comparison.mutable_policy()->set_preset(v1::Policy::TORCH);
  v1::Comparison made;
  MSITCTL_RETURN_IF_FAILED(connection.Ask(
      &v1::ComparisonService::Stub::CreateComparison, request, made));
  grpc::ClientContext context;
  context.set_deadline(connection.StreamDeadline());
  const auto stream =
      connection.stub<v1::ComparisonService::Stub>().StreamComparisonRows(
          &context,
          ask::RequestFor<v1::StreamComparisonRowsRequest>(made.name()));
  v1::StreamComparisonRowsResponse part;
  while (stream->Read(&part)) {
    made = part.comparison();
    for (const v1::ComparisonRow& row : part.rows()) wrong.See(row);
  }
  MSITCTL_RETURN_IF_FAILED(connection.OutcomeOf(stream->Finish()));
  if (made.state() != v1::Comparison::DONE)
    return ask::LocalError(made.error());
  if (wrong.compared_count() == 0) {
    return ask::LocalError(fmt::format(
        "{} and {} have no results in common: do they record the same model?",
        golden, target));
  }
  return {};
}

std::vector<std::string> NamesOf(
    const std::vector<WrongModules::Module>& modules) {
  std::vector<std::string> out;
  for (const WrongModules::Module& each : modules) {
    out.push_back(ask::Printable(each.op));
  }
  return out;
}

void Print(Invocation& invocation,
           const std::vector<WrongModules::Module>& found,
           const std::vector<WrongModules::Module>& undecided) {
  ask::Output& out = invocation.out();
  switch (invocation.options().format) {
    case ask::Format::kName:
      for (const std::string& op : NamesOf(found)) out.Write(op + '\n');
      return;
    case ask::Format::kCsv:
      out.Write("op,results,token,call,reason\n");
      for (const auto& each : found) {
        out.Write(ask::CsvLine({each.op, std::to_string(each.result_count),
                                std::to_string(each.token),
                                std::to_string(each.call), each.reason},
                               invocation.options().guards_formulas));
      }
      return;
    case ask::Format::kJson: {
      write::JsonWriter json(/*indent=*/1);
      json.BeginObject().Key("wrong").BeginList();
      for (const auto& each : found) {
        json.BeginObject().Field("op", each.op);
        json.Field("result_count", each.result_count);
        json.Field("token", each.token).Field("call", int64_t{each.call});
        json.Field("reason", each.reason).EndObject();
      }
      json.EndList().Key("undecided").BeginList();
      for (const auto& each : undecided) json.Text(each.op);
      out.Write(json.EndList().EndObject().Take() + '\n');
      return;
    }
    case ask::Format::kTable:
      break;
  }
  if (found.empty()) return;
  size_t width = 2;
  for (const std::string& op : NamesOf(found)) {
    width = std::max(width, op.size());
  }
  out.Write(fmt::format("{:<{}}  results  token  call  reason\n", "op", width));
  for (const auto& each : found) {
    out.Write(fmt::format("{:<{}}  {:>7}  {:>5}  {:>4}  {}\n",
                          ask::Printable(each.op), width, each.result_count,
                          each.token, each.call, ask::Printable(each.reason)));
  }
}

// Prints modules about which no conclusion is possible.
void TellUndecided(const std::string& golden,
                   const std::vector<WrongModules::Module>& undecided) {
  if (undecided.empty()) return;
  std::vector<std::string> names = NamesOf(undecided);
  const size_t rest = names.size() - std::min(names.size(), kNamedMax);
  names.resize(names.size() - rest);
  fmt::print(stderr,
             "msitctl bisect: undecided: {}{}: the differences there may be "
             "due to inputs that differ from those of {}\n",
             fmt::join(names, ", "),
             rest == 0 ? "" : fmt::format(" and {} more", rest),
             ask::Printable(golden));
}

void TellNotCompared(const WrongModules& wrong) {
  if (wrong.unmatched_count() > 0) {
    fmt::print(
        stderr,
        "msitctl bisect: {} of the results exist in only one of the runs\n",
        wrong.unmatched_count());
  }
  if (wrong.skipped_count() > 0) {
    fmt::print(stderr,
               "msitctl bisect: {} of the results could not be compared\n",
               wrong.skipped_count());
  }
}

ask::Outcome Bisect(Invocation& invocation, const ExecFlags& flags) {
  const std::string& golden = flags.inject.front();
  return Exec(
      invocation, flags,
      [&](ask::Connection& connection, const std::vector<std::string>& runs,
          int code) -> ask::Outcome {
        if (code != 0) {
          fmt::print(stderr, "msitctl bisect: the command exited with {}\n",
                     code);
        }
        WrongModules wrong;
        MSITCTL_RETURN_IF_FAILED(
            Compare(connection, golden, runs.front(), wrong));
        const auto found = wrong.Innermost();
        const auto undecided = wrong.Undecided();
        Print(invocation, found, undecided);
        TellUndecided(golden, undecided);
        TellNotCompared(wrong);
        if (!found.empty()) return {ask::kExitPolicyFailed, ""};
        if (!undecided.empty() || wrong.skipped_count() > 0) {
          return {ask::kExitPartial, ""};
        }
        fmt::print(stderr,
                   "msitctl bisect: no module is wrong by itself: with the "
                   "inputs of {}, all results are the same\n",
                   ask::Printable(golden));
        return {};
      });
}

}  // namespace

void AddBisectCommand(CommandLine& line) {
  auto flags = std::make_shared<ExecFlags>();
  flags->inject.resize(1);
  CLI::App& verb = line.AddVerb(
      line.app(),
      {.name = "bisect",
       .summary =
           "Find the modules that are wrong by themselves: run a command, and "
           "pass the inputs of a golden run to its modules.",
       .examples = "msitctl bisect golden -- python train_changed.py",
       .rpcs = "RunService.ListRuns, RunService.SealRun, "
               "IngestService.WriteChunks, TensorService.ListTensors, "
               "TensorService.ReadTensor, ComparisonService.CreateComparison, "
               "ComparisonService.StreamComparisonRows"},
      [flags](Invocation& invocation) { return Bisect(invocation, *flags); });
  verb.add_option("GOLDEN", flags->inject.front(), "Run of the correct model")
      ->required()
      ->type_name("GOLDEN");
  AddExecFlags(verb, *flags);
}

}  // namespace msitd::msitctl
