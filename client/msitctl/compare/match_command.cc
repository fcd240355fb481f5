// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/match_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/print/file_sink.h"
#include "client/ask/print/table.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/match_by_flags.h"
#include "client/msitctl/flag/match_flags.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

struct Flags {
  std::string golden;
  std::string target;
  std::string out;
  MatchFlags match;
};

std::string ToCell(const std::optional<match::Reference>& reference) {
  if (!reference.has_value()) return "-";
  std::string out = reference->op;
  if (reference->call.has_value()) out += fmt::format(" #{}", *reference->call);
  if (reference->io == Io::kUnspecified) return out;
  return fmt::format("{} {}/{}", out, IoName(reference->io), reference->index);
}

void Print(Invocation& invocation, const match::Mapping& mapping) {
  const ask::Format format = invocation.options().format;
  if (format == ask::Format::kJson || format == ask::Format::kName) {
    invocation.out().Write(fill::ToText(mapping));
    return;
  }
  const std::vector<std::string> names = {"target", "golden", "reason"};
  if (format == ask::Format::kCsv) {
    const bool guards = invocation.options().guards_formulas;
    invocation.out().Write(ask::CsvLine(names, guards));
    for (const match::Line& line : mapping.lines) {
      invocation.out().Write(ask::CsvLine(
          {ToCell(line.target), ToCell(line.golden), line.reason}, guards));
    }
    return;
  }
  ask::Table table({{names[0], false, ask::ColumnNeed::kAlways, false},
                    {names[1], false, ask::ColumnNeed::kAlways, false},
                    {names[2], false, ask::ColumnNeed::kAlways, true}},
                   invocation.print_options().table);
  for (const match::Line& line : mapping.lines) {
    table.Add({ToCell(line.target), ToCell(line.golden), line.reason});
    if (table.wants_flush()) invocation.out().Write(table.Flush());
  }
  invocation.out().Write(table.Flush());
}

ask::Outcome WriteFile(Invocation& invocation, const std::string& out,
                       const match::Mapping& mapping) {
  auto sink = ask::FileSink::Open(
      out, invocation.options().terminal.stdout_is_terminal);
  if (!sink.ok()) return ask::LocalError(Message(sink.status()));
  absl::Status status = sink->Write(fill::ToText(mapping));
  if (status.ok()) status = sink->Commit();
  return status.ok() ? ask::Outcome() : ask::LocalError(Message(status));
}

ask::Outcome RunMatchVerb(Invocation& invocation, Flags flags) {
  MSITCTL_RETURN_IF_FAILED(SettleMatcher(flags.match));
  std::optional<fill::RunMatch> match;
  fill::RunSources sources;
  MSITCTL_RETURN_IF_FAILED(
      fill::ReadSources(invocation, flags.golden, flags.target, sources));
  MSITCTL_RETURN_IF_FAILED(MatchByFlags(invocation, flags.golden, flags.target,
                                        sources, flags.match, match));
  if (!match.has_value()) {
    return ask::UsageError(
        "these runs are compared by names: their labels `source` select no "
        "matcher, or all ops have the same names. To select one, use --match");
  }
  if (flags.out.empty()) {
    Print(invocation, match->mapping);
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  } else {
    MSITCTL_RETURN_IF_FAILED(WriteFile(invocation, flags.out, match->mapping));
  }
  TellOfMatch(*match, flags.golden, flags.target);
  TellOfLeft(match->mapping);
  return {};
}

}  // namespace

void AddMatchVerb(CommandLine& line, CLI::App& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App& verb = line.AddVerb(
      run,
      {.name = "match",
       .summary = "Show which tensors of two runs from different tools are "
                  "paired, as a mapping for compare run.",
       .examples = "msitctl run match fx-run ge-run\n"
                   "msitctl run match fx-run ge-run --out pairs.jsonl\n"
                   "msitctl run match torch-run atb-run --level layer",
       .rpcs = "RunService.GetRun, TensorService.ListTensors, "
               "AttachmentService.ListAttachments, "
               "AttachmentService.ReadAttachment, TensorService.ReadTensor"},
      [flags](Invocation& invocation) {
        return RunMatchVerb(invocation, *flags);
      });
  verb.add_option("GOLDEN,--golden", flags->golden, "The trusted run")
      ->required()
      ->type_name("RUN");
  verb.add_option("TARGET,--target", flags->target, "The run to judge")
      ->required()
      ->type_name("RUN");
  verb.add_option("--out", flags->out,
                  "File to write for --mapping-file; - is stdout")
      ->type_name("FILE");
  AddMatchFlags(verb, flags->match);
}

}  // namespace msitd::msitctl
