// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/command/exec_command.h"
#include "client/ctl/command_line.h"
#include "client/ctl/print/printer.h"
#include "client/export/writer/json_writer.h"
#include "client/query/exit_code.h"
#include "client/query/run_names.h"
#include "client/text/text.h"
#include "msitd/v1/comparison_service.grpc.pb.h"

namespace msitd::ctl {
namespace {

// Results of an op that differ, though its inputs are those of the golden run.
struct Wrong {
  int64_t count = 0;
  // The first of them.
  int64_t token = 0;
  int32_t call = 0;
  int64_t sequence = 0;
  std::string reason;
};

using WrongOps = std::map<std::string, Wrong>;

void See(const v1::ComparisonRow& row, WrongOps& wrong) {
  if (row.verdict() != v1::FAIL) return;
  Wrong& op = wrong[row.op()];
  if (op.count++ > 0 && op.token <= row.token()) return;
  op.token = row.token();
  op.call = row.call();
  op.sequence = row.sequence();
  op.reason = row.reason();
}

Outcome Compare(Connection& connection, const std::string& golden,
                const std::string& target, WrongOps& wrong) {
  v1::CreateComparisonRequest request;
  v1::Comparison& comparison = *request.mutable_comparison();
  comparison.set_golden_run(golden);
  comparison.set_target_run(target);
  comparison.mutable_filter()->add_ios(v1::IO_OUTPUT);
  comparison.mutable_policy()->set_preset(v1::Policy::TORCH);
  v1::Comparison made;
  MSITCTL_RETURN_IF_FAILED(connection.Ask(
      &v1::ComparisonService::Stub::CreateComparison, request, made));
  grpc::ClientContext context;
  context.set_deadline(connection.StreamDeadline());
  const auto stream =
      connection.stub<v1::ComparisonService::Stub>().StreamComparisonRows(
          &context, RequestFor<v1::StreamComparisonRowsRequest>(made.name()));
  v1::StreamComparisonRowsResponse part;
  while (stream->Read(&part)) {
    made = part.comparison();
    for (const v1::ComparisonRow& row : part.rows()) See(row, wrong);
  }
  MSITCTL_RETURN_IF_FAILED(connection.OutcomeOf(stream->Finish()));
  if (made.state() != v1::Comparison::DONE) return LocalError(made.error());
  if (made.pass_count() + made.fail_count() == 0) {
    return LocalError(
        fmt::format("{} and {} have no result in common: are they of the same "
                    "model?",
                    golden, target));
  }
  return {};
}

// Those of the first token that has any: in a training, weights differ behind
// it. What holds a module that is wrong differs as well, and is left out.
std::vector<std::pair<std::string, Wrong>> Innermost(WrongOps wrong) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& [op, what] : wrong) first = std::min(first, what.token);
  std::erase_if(
      wrong, [first](const auto& each) { return each.second.token > first; });
  std::vector<std::pair<std::string, Wrong>> out;
  for (const auto& [op, what] : wrong) {
    const auto inside = wrong.lower_bound(op + ".");
    const bool holds_one =
        inside != wrong.end() && inside->first.starts_with(op + ".");
    if (!holds_one) out.emplace_back(op, what);
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.token, a.second.sequence) <
           std::pair(b.second.token, b.second.sequence);
  });
  return out;
}

void Print(Invocation& invocation,
           const std::vector<std::pair<std::string, Wrong>>& found) {
  Output& out = invocation.out();
  switch (invocation.options().format) {
    case Format::kName:
      for (const auto& [op, wrong] : found) out.Write(Printable(op) + '\n');
      return;
    case Format::kCsv:
      out.Write("op,results,token,call,reason\n");
      for (const auto& [op, wrong] : found) {
        out.Write(CsvLine(
            {op, std::to_string(wrong.count), std::to_string(wrong.token),
             std::to_string(wrong.call), wrong.reason},
            invocation.options().guards_formulas));
      }
      return;
    case Format::kJson: {
      exports::JsonWriter json(/*indent=*/1);
      json.BeginObject().Key("wrong").BeginList();
      for (const auto& [op, wrong] : found) {
        json.BeginObject().Field("op", op).Field("result_count", wrong.count);
        json.Field("token", wrong.token).Field("call", int64_t{wrong.call});
        json.Field("reason", wrong.reason).EndObject();
      }
      out.Write(json.EndList().EndObject().Take() + '\n');
      return;
    }
    case Format::kTable:
      break;
  }
  if (found.empty()) return;
  size_t width = 2;
  for (const auto& [op, wrong] : found) {
    width = std::max(width, Printable(op).size());
  }
  out.Write(fmt::format("{:<{}}  results  token  call  reason\n", "op", width));
  for (const auto& [op, wrong] : found) {
    out.Write(fmt::format("{:<{}}  {:>7}  {:>5}  {:>4}  {}\n", Printable(op),
                          width, wrong.count, wrong.token, wrong.call,
                          Printable(wrong.reason)));
  }
}

Outcome Bisect(Invocation& invocation, const ExecFlags& flags) {
  const std::string& golden = flags.inject.front();
  return Exec(
      invocation, flags,
      [&](Connection& connection, const std::vector<std::string>& runs,
          int code) -> Outcome {
        if (code != 0) {
          fmt::print(stderr, "msitctl bisect: the command has ended with {}\n",
                     code);
        }
        WrongOps wrong;
        MSITCTL_RETURN_IF_FAILED(
            Compare(connection, golden, runs.front(), wrong));
        const auto found = Innermost(wrong);
        Print(invocation, found);
        if (!found.empty()) return {kExitPolicyFailed, ""};
        fmt::print(stderr,
                   "msitctl bisect: no module is wrong by itself: with the "
                   "inputs of {}, all results are its own\n",
                   Printable(golden));
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
       .summary = "Names the modules that are wrong by themselves: runs a "
                  "command whose modules are given the inputs of a golden run.",
       .examples = "msitctl bisect golden -- python train_changed.py",
       .rpcs = "RunService.ListRuns, RunService.SealRun, "
               "IngestService.WriteChunks, TensorService.ListTensors, "
               "TensorService.ReadTensor, ComparisonService.CreateComparison, "
               "ComparisonService.StreamComparisonRows"},
      [flags](Invocation& invocation) { return Bisect(invocation, *flags); });
  verb.add_option("GOLDEN", flags->inject.front(),
                  "Run of the model that is right")
      ->required()
      ->type_name("GOLDEN");
  AddExecFlags(verb, *flags);
}

}  // namespace msitd::ctl
