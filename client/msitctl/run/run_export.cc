// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/run_export.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/print/progress.h"
#include "client/ask/text/text.h"
#include "client/foreign/write/export.h"
#include "client/foreign/write/writer/json_writer.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/selection_note.h"

namespace msitd::msitctl {
namespace {

// Records that are reported individually.
constexpr int64_t kToldProblemsMax = 20;

struct ExportFlags {
  std::string run;
  std::string format;
  std::string folder;
  SelectionFlags selection;
  bool overwrite = false;
  bool statistics = false;
  bool legal_json = false;
  std::string checksum;
  bool no_tensors = false;
  bool allow_partial = false;
};

// Returns an empty text if everything was written.
std::string LeftOutText(const write::ExportCounts& counts) {
  std::vector<std::string> parts;
  if (counts.problem_count > 0) {
    parts.push_back(
        fmt::format("{} records not written", counts.problem_count));
  }
  if (counts.incomplete_count > 0) {
    parts.push_back(fmt::format(
        "{} tensors are incomplete: parts are missing or have not arrived yet",
        counts.incomplete_count));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string CountsText(const write::ExportCounts& counts) {
  std::string out = fmt::format("{} tensors", counts.tensor_count);
  if (counts.size_bytes > 0) out += ", " + ask::HumanSize(counts.size_bytes);
  if (counts.value_count > 0) {
    out += fmt::format(", {} values", counts.value_count);
  }
  if (counts.statistics_count > 0) {
    out += fmt::format(", {} statistics", counts.statistics_count);
  }
  if (counts.document_count > 0) {
    out += fmt::format(", {} documents", counts.document_count);
  }
  out += fmt::format(" in {} files", counts.file_count);
  const std::string left_out = LeftOutText(counts);
  return left_out.empty() ? out : out + "; " + left_out;
}

void PrintCounts(Invocation& invocation, const ExportFlags& flags,
                 const write::ExportCounts& counts) {
  switch (invocation.options().format) {
    case ask::Format::kTable:
      invocation.out().Write(
          fmt::format("exported {} to {}: {}\n", ask::Printable(flags.run),
                      ask::Printable(flags.folder), CountsText(counts)));
      break;
    case ask::Format::kName:
      invocation.out().Write(ask::Printable(flags.folder) + '\n');
      break;
    case ask::Format::kCsv:
      invocation.out().Write(
          "run,folder,tensors,values,statistics,documents,files,size_bytes,"
          "problems,incomplete\n" +
          ask::CsvLine(
              {flags.run, flags.folder, std::to_string(counts.tensor_count),
               std::to_string(counts.value_count),
               std::to_string(counts.statistics_count),
               std::to_string(counts.document_count),
               std::to_string(counts.file_count),
               std::to_string(counts.size_bytes),
               std::to_string(counts.problem_count),
               std::to_string(counts.incomplete_count)},
              invocation.options().guards_formulas));
      break;
    case ask::Format::kJson: {
      write::JsonWriter out(/*indent=*/1);
      out.BeginObject().Field("run", flags.run).Field("folder", flags.folder);
      out.Field("tensor_count", counts.tensor_count)
          .Field("value_count", counts.value_count)
          .Field("statistics_count", counts.statistics_count)
          .Field("document_count", counts.document_count)
          .Field("file_count", counts.file_count)
          .Field("size_bytes", counts.size_bytes)
          .Field("problem_count", counts.problem_count)
          .Field("incomplete_count", counts.incomplete_count);
      invocation.out().Write(out.EndObject().Take() + '\n');
    }
  }
}

ask::Outcome ExportRun(Invocation& invocation, const ExportFlags& flags) {
  write::ExportOptions options;
  options.run = flags.run;
  options.folder = flags.folder;
  options.replaces = flags.overwrite;
  options.with_statistics = flags.statistics;
  options.format = *write::ParseExportFormat(flags.format);
  if (flags.statistics && options.format != write::ExportFormat::kMsit) {
    return ask::UsageError("--statistics requires --format msit");
  }
  options.is_legal_json = flags.legal_json;
  if (flags.legal_json && options.format != write::ExportFormat::kMsprobe) {
    return ask::UsageError("--legal-json requires --format msprobe");
  }
  options.without_tensors = flags.no_tensors;
  if (!flags.checksum.empty()) {
    options.checksum = flags.checksum == "xor" ? write::Checksum::kXor
                                               : write::Checksum::kCrc32;
  }
  if ((flags.no_tensors || !flags.checksum.empty()) &&
      options.format != write::ExportFormat::kMsprobe) {
    return ask::UsageError(
        "--checksum and --no-tensors require --format msprobe");
  }
  MSITCTL_ASSIGN_OR_USAGE(options.filter, ToFilter(flags.selection));
  // Held until the end, so that the complete part is reported after an
  // interrupt.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  PartialNotice partial(invocation, /*is_table=*/false);
  write::ExportCounts counts;
  write::ExportListener listener;
  listener.problem = [&](std::string_view name, std::string_view reason) {
    if (counts.problem_count > kToldProblemsMax) return;
    progress.Clear();
    fmt::print(stderr, "msitctl: note: {}: {}\n", ask::Printable(name),
               ask::Printable(reason));
  };
  listener.progress = [&](const write::ExportCounts& now) {
    progress.Show(CountsText(now));
  };
  listener.page = [&](const v1::ListTensorsResponse& page) {
    progress.Clear();
    partial.See(flags.run, page);
  };
  const ask::Outcome outcome =
      write::Export(invocation, options, listener, counts);
  progress.Clear();
  if (!outcome.ok() && counts.file_count == 0) return outcome;
  if (counts.remade_count > 0) {
    fmt::print(stderr,
               "msitctl: note: {} dump.json built from the records: the "
               "documents of the run name the files differently{}\n",
               counts.remade_count,
               flags.legal_json ? ", or have NaN or Infinity" : "");
  }
  PrintCounts(invocation, flags, counts);
  MSITCTL_RETURN_IF_FAILED(outcome);
  if (std::string left_out = LeftOutText(counts); !left_out.empty()) {
    return {ask::kExitPartial, std::move(left_out)};
  }
  if (counts.tensor_count + counts.value_count + counts.statistics_count +
          counts.document_count ==
      0) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    NoteNoTensor(invocation, flags.run, flags.selection, "");
  }
  return partial.End(flags.allow_partial);
}

}  // namespace

void AddExportVerb(CommandLine& line, CLI::App& run) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App& verb = line.AddVerb(
      run,
      {.name = "export",
       .summary = "Write a run to a folder, as files of other tools.",
       .examples =
           "msitctl run export golden-fp32 --format npy --out golden\n"
           "msitctl run export tp8-bf16 --format pt --out tp8 --ranks 0 "
           "--tokens 0-3 --ops '*.attention.*'\n"
           "msitctl run export golden-fp32 --format tensorboard --out logs",
       .rpcs = "RunService.GetRun, TensorService.SummarizeTensors, "
               "TensorService.ListTensors, TensorService.ReadTensors, "
               "TensorService.ReadTensor"},
      [flags](Invocation& invocation) {
        return ExportRun(invocation, *flags);
      });
  AddRunName(verb, flags->run);
  verb.add_option(
          "--format", flags->format,
          "npy, pt: one file for each tensor. npz, safetensors: one file for "
          "each rank and token. msit, msprobe: the folders of these tools. "
          "tensorboard: norms and other summaries over tokens, as scalars")
      ->required()
      ->check(OneOf({"npy", "npz", "safetensors", "pt", "msit", "msprobe",
                     "tensorboard"}))
      ->type_name("FORMAT");
  verb.add_option("--out", flags->folder, "Folder to write, new or empty")
      ->required()
      ->type_name("FOLDER");
  verb.add_flag("--overwrite", flags->overwrite,
                "Write to a folder that is not empty, and replace files of the "
                "same name");
  verb.add_flag("--statistics", flags->statistics,
                "msit only: also write statistics.csv for each module");
  verb.add_flag("--legal-json", flags->legal_json,
                "msprobe only: write NaN, Infinity and -Infinity as strings, "
                "which every JSON parser accepts");
  verb.add_option("--checksum", flags->checksum,
                  "msprobe only: checksum in the field `md5`: md5, which is "
                  "msprobe's name for a CRC-32, or xor")
      ->check(OneOf({"md5", "xor"}))
      ->type_name("KIND");
  verb.add_flag(
      "--no-tensors", flags->no_tensors,
      "msprobe only: write no files of tensors, only their descriptions");
  AddSelectionFlags(verb, flags->selection);
  AddKindFlag(verb, flags->selection, /*takes_documents=*/true);
  AddPartialFlag(verb, flags->allow_partial);
}

}  // namespace msitd::msitctl
