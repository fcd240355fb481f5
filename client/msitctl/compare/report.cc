// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "client/ask/print/file_sink.h"
#include "client/ask/print/progress.h"
#include "client/ask/query/together.h"
#include "client/ask/report/ci/junit_report.h"
#include "client/ask/report/ci/markdown_report.h"
#include "client/ask/report/graph/model_explorer_report.h"
#include "client/ask/report/page/html_report.h"
#include "client/ask/report/page/row_histograms.h"
#include "client/ask/report/report_writer.h"
#include "client/ask/report/schema/msitd_schema.h"
#include "client/ask/report/table/sinks.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/ask/text/yaml_text.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/same_runs.h"
#include "client/msitctl/flag/verdict_flag.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/partial.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

// Collects small pieces, because each write is a system call.
class BufferedSink {
 public:
  explicit BufferedSink(ask::FileSink& file) : file_(file) {}

  absl::Status Write(std::string_view bytes) {
    buffer_ += bytes;
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }

  absl::Status Flush() {
    const absl::Status status = file_.Write(buffer_);
    buffer_.clear();
    return status;
  }

 private:
  ask::FileSink& file_;
  std::string buffer_;
};

absl::StatusOr<report::MsprobeMode> ParseMode(std::string_view word) {
  if (word == "all") return report::MsprobeMode::kAll;
  if (word == "summary") return report::MsprobeMode::kSummary;
  if (word == "md5") return report::MsprobeMode::kMd5;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "--mode: \"{}\" is not all, summary or md5", word);
}

// The ends of files that show the format of a report.
constexpr std::pair<std::string_view, std::string_view> kExtensions[] = {
    {".csv", "csv"},   {".html", "html"}, {".jsonl", "jsonl"},
    {".xlsx", "xlsx"}, {".xml", "junit"}, {".md", "markdown"}};
constexpr char kExtensionsText[] =
    ".csv, .jsonl, .xlsx, .html, .xml (JUnit) or .md";

// Returns an empty text for a file whose extension belongs to no format.
std::string FormatOfFile(const std::string& file) {
  const std::string end = std::filesystem::path(file).extension().string();
  for (const auto& [extension, format] : kExtensions) {
    if (end == extension) return std::string(format);
  }
  return "";
}

// Returns an empty text if nothing states the format.
std::string FormatOf(const ReportFlags& flags) {
  if (!flags.format.empty()) return flags.format;
  return std::filesystem::path(flags.out).extension().empty()
             ? "csv"
             : FormatOfFile(flags.out);
}

// Tables of other tools are CSV unless the name of the file specifies another
// format.
std::unique_ptr<ask::TableSink> MakeSink(const ReportFlags& flags,
                                         bool guards_formulas,
                                         ask::ReportSink sink) {
  const std::string format = FormatOf(flags);
  const bool is_msitd = format == "csv" || format == "xlsx";
  const auto is_named = [&flags](std::string_view end) {
    return flags.out.ends_with(end);
  };
  if (format == "xlsx" || (!is_msitd && is_named(".xlsx"))) {
    return ask::MakeXlsxSink(std::move(sink));
  }
  if (!is_msitd && is_named(".jsonl")) {
    return ask::MakeJsonLinesSink(std::move(sink));
  }
  if (!is_msitd && is_named(".html")) return ask::MakeHtmlSink(std::move(sink));
  return ask::MakeCsvSink(std::move(sink), guards_formulas);
}

bool IsOfMsprobe(std::string_view format) {
  return format == "msprobe" || format == "advice";
}

// The input of a report in addition to its rows.
struct Material {
  ask::PageFacts facts;
  std::vector<v1::Verdict> verdicts;
  report::MsprobeStackTable stacks;
};

absl::StatusOr<report::MsprobeReport> ToMsprobeReport(
    const ReportFlags& flags, const Material& material) {
  report::MsprobeReport out;
  MSITD_ASSIGN_OR_RETURN(out.mode, ParseMode(flags.mode));
  out.verdicts = material.verdicts;
  out.stacks = &material.stacks;
  out.is_compat = flags.is_compat;
  if (flags.rules.empty()) return out;
  const auto text = ask::ReadTextFile(flags.rules, ask::kYamlBytesMax);
  auto rules =
      text.ok() ? report::ReadMsprobeRules(*text, report::DefaultMsprobeRules())
                : text.status();
  if (!rules.ok()) {
    return Annotate(rules.status(), fmt::format("--rules: {}", flags.rules));
  }
  out.rules = *std::move(rules);
  return out;
}

absl::StatusOr<std::unique_ptr<ask::TableSchema>> MakeSchema(
    const ReportFlags& flags, const Material& material) {
  const std::string format = FormatOf(flags);
  if (format == "csv" || format == "xlsx") {
    return ask::MakeMsitdSchema(NamesOf(material.facts.metrics));
  }
  if (format == "msit")
    return report::MakeMsitSchema(flags.out.ends_with(".xlsx"));
  if (format == "msprobe") {
    MSITD_ASSIGN_OR_RETURN(report::MsprobeReport report,
                           ToMsprobeReport(flags, material));
    return report::MakeMsprobeSchema(std::move(report));
  }
  return MakeStatus(
      absl::StatusCode::kInvalidArgument,
      "--format: \"{}\" is not csv, jsonl, xlsx, html, junit, "
      "markdown, model-explorer, model-explorer-data, msit, msprobe "
      "or advice",
      format);
}

absl::StatusOr<std::unique_ptr<ask::ReportWriter>> MakeWriter(
    const ReportFlags& flags, const Material& material,
    const ask::RowHistograms& histograms, bool guards_formulas,
    ask::ReportSink sink) {
  const std::string format = FormatOf(flags);
  if (format == "jsonl") return ask::MakeMessageReport(std::move(sink));
  const ask::Allowed allowed(flags.allow_partial, flags.allow_undecided);
  if (format == "junit") return ask::MakeJunitReport(allowed, std::move(sink));
  if (format == "markdown") {
    return ask::MakeMarkdownReport(allowed, std::move(sink));
  }
  if (format == "model-explorer" || format == "model-explorer-data") {
    return ask::MakeModelExplorerReport(
        format == "model-explorer" ? ask::ModelExplorerFile::kGraph
                                   : ask::ModelExplorerFile::kNodeData,
        allowed, material.facts.metrics, std::move(sink));
  }
  if (format == "advice") {
    MSITD_ASSIGN_OR_RETURN(report::MsprobeReport report,
                           ToMsprobeReport(flags, material));
    return report::MakeAdviceReport(std::move(report), std::move(sink));
  }
  if (format == "html") {
    return ask::MakeHtmlReport(material.facts, histograms, std::move(sink));
  }
  MSITD_ASSIGN_OR_RETURN(auto schema, MakeSchema(flags, material));
  return ask::MakeTableReport(
      std::move(schema), MakeSink(flags, guards_formulas, std::move(sink)));
}

// Leaves `run` empty if it no longer exists. Its rows still exist.
ask::Outcome GetRunIfThere(Invocation& invocation, const std::string& name,
                           std::optional<v1::Run>& run) {
  v1::Run found;
  const ask::Outcome outcome =
      invocation.AskByName(&v1::RunService::Stub::GetRun, name, found);
  if (outcome.ok()) run = std::move(found);
  return outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND)
             ? ask::Outcome()
             : outcome;
}

// Reads the stacks of the calls of a run. Leaves `out` empty if the run no
// longer exists.
ask::Outcome ReadStacks(Invocation& invocation, const std::string& run,
                        report::MsprobeStackTable& out) {
  v1::ListTensorsRequest request;
  request.set_run(run);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_TENSOR);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_STATISTICS);
  v1::ListTensorsResponse response;
  const ask::Outcome outcome = ask::ForEachRow(
      invocation, &v1::TensorService::Stub::ListTensors, request, "tensors", 0,
      [&out](const google::protobuf::Message& row) {
        out.Add(static_cast<const v1::Tensor&>(row));
      },
      response);
  if (out.left_out_count() > 0) {
    fmt::print(stderr, "msitctl: note: {} calls have more than one stack\n",
               out.left_out_count());
  }
  return outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND)
             ? ask::Outcome()
             : outcome;
}

ask::Outcome OutcomeOfReport(const absl::Status& status) {
  if (status.ok()) return {};
  return absl::IsFailedPrecondition(status) ? ask::UsageError(Message(status))
                                            : ask::LocalError(Message(status));
}

ask::Outcome WriteRows(Invocation& invocation, const ReportFlags& flags,
                       const std::vector<v1::Verdict>& verdicts,
                       const v1::Comparison& comparison,
                       ask::RowHistograms& histograms,
                       ask::ReportWriter& writer) {
  // msprobe judges all rows together.
  const v1::ListComparisonRowsRequest request = RowsRequest(
      comparison.name(),
      IsOfMsprobe(FormatOf(flags)) ? std::vector<v1::Verdict>() : verdicts);
  absl::Status status = writer.Begin(comparison);
  v1::ListComparisonRowsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      invocation, &v1::ComparisonService::Stub::ListComparisonRows, request,
      "rows", 0,
      [&](const google::protobuf::Message& row) {
        if (!status.ok()) return;
        const auto& compared = static_cast<const v1::ComparisonRow&>(row);
        status = writer.Add(compared);
        histograms.Consider(compared);
      },
      response));
  if (!status.ok()) return OutcomeOfReport(status);
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  MSITCTL_RETURN_IF_FAILED(histograms.Fetch(
      invocation, [&progress](std::string_view line) { progress.Show(line); }));
  const auto note = writer.Finish();
  if (!note.ok()) return OutcomeOfReport(note.status());
  if (!note->empty()) fmt::print(stderr, "msitctl: note: {}\n", *note);
  return {};
}

// Sets `is_here` if the daemon still has this run of the comparison, so that
// more than its rows can be shown. Prints a note on stderr if another run has
// its name.
ask::Outcome FindRun(Invocation& invocation, const std::string& run,
                     const std::string& id, const std::string& source,
                     bool& is_here) {
  is_here = source.empty();
  if (!is_here) return {};
  bool is_replaced = false;
  MSITCTL_RETURN_IF_FAILED(FindReplacement(invocation, run, id, is_replaced));
  if (!is_replaced) return {};
  is_here = false;
  fmt::print(stderr,
             "msitctl: note: run {} was deleted, and another run has its name "
             "now: the report has only the data that the comparison stored\n",
             ask::Printable(run));
  return {};
}

}  // namespace

ask::Outcome CheckReportFile(const std::string& file) {
  if (!FormatOfFile(file).empty()) return {};
  return ask::UsageError(fmt::format(
      "--out {}: the file name must end in {}; for other formats: msitctl "
      "compare report; with --engine, --out is a folder",
      file, kExtensionsText));
}

ask::Outcome WriteReport(Invocation& invocation, const ReportFlags& flags) {
  if (FormatOf(flags).empty()) {
    return ask::UsageError(
        fmt::format("--out {}: the file name must end in {}; otherwise, use "
                    "--format",
                    flags.out, kExtensionsText));
  }
  if (!IsOfMsprobe(FormatOf(flags)) && !flags.rules.empty()) {
    return ask::UsageError("--rules requires --format msprobe or advice");
  }
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(invocation.AskByName(
      &v1::ComparisonService::Stub::GetComparison, flags.name, comparison));
  // In any format, because the report may be written to stdout.
  PartialNotice partial(invocation, /*is_table=*/false);
  partial.See(comparison);
  MSITCTL_RETURN_IF_FAILED(WriteReportOf(invocation, comparison, flags));
  return partial.End(flags.allow_partial);
}

ask::Outcome WriteReportOf(Invocation& invocation,
                           const v1::Comparison& comparison,
                           const ReportFlags& flags) {
  // Held before the file is created, so that an interrupt removes it.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  auto file = ask::FileSink::Open(
      flags.out, invocation.options().terminal.stdout_is_terminal);
  if (!file.ok()) return ask::LocalError(Message(file.status()));
  Material material;
  ask::PageFacts& facts = material.facts;
  MSITCTL_RETURN_IF_FAILED(invocation.GetMetrics(facts.metrics));
  bool has_golden = false;
  bool has_target = false;
  MSITCTL_RETURN_IF_FAILED(FindRun(invocation, comparison.golden_run(),
                                   comparison.golden_run_id(),
                                   comparison.golden_source(), has_golden));
  MSITCTL_RETURN_IF_FAILED(FindRun(invocation, comparison.target_run(),
                                   comparison.target_run_id(),
                                   comparison.target_source(), has_target));
  if (FormatOf(flags) == "msprobe" && has_target) {
    MSITCTL_RETURN_IF_FAILED(
        ReadStacks(invocation, comparison.target_run(), material.stacks));
  }
  if (FormatOf(flags) == "html") {
    const auto get = [&invocation](bool has, const std::string& run,
                                   std::optional<v1::Run>& out) {
      return has ? GetRunIfThere(invocation, run, out) : ask::Outcome();
    };
    ask::Outcome of_golden;
    ask::Outcome of_target;
    ask::Together(
        invocation,
        [&] {
          of_golden = get(has_golden, comparison.golden_run(), facts.golden);
        },
        [&] {
          of_target = get(has_target, comparison.target_run(), facts.target);
        });
    MSITCTL_RETURN_IF_FAILED(of_golden);
    MSITCTL_RETURN_IF_FAILED(of_target);
  }
  BufferedSink sink(*file);
  // No other format can show histograms, and they require bytes that are still
  // available.
  const bool has_histograms =
      FormatOf(flags) == "html" && has_golden && has_target;
  ask::RowHistograms histograms(has_histograms ? flags.histograms : 0);
  MSITCTL_ASSIGN_OR_USAGE(material.verdicts, ParseVerdicts(flags.verdicts));
  std::unique_ptr<ask::ReportWriter> writer;
  MSITCTL_ASSIGN_OR_USAGE(
      writer,
      MakeWriter(
          flags, material, histograms, invocation.options().guards_formulas,
          [&sink](std::string_view bytes) { return sink.Write(bytes); }));
  MSITCTL_RETURN_IF_FAILED(WriteRows(invocation, flags, material.verdicts,
                                     comparison, histograms, *writer));
  absl::Status status = sink.Flush();
  if (status.ok()) status = file->Commit();
  return OutcomeOfReport(status);
}

ask::Outcome WriteReportFile(Invocation& invocation, const std::string& file,
                             const ListFlags& list,
                             const v1::Comparison& comparison) {
  if (file.empty() || comparison.state() != v1::Comparison::DONE) return {};
  ReportFlags flags;
  flags.out = file;
  flags.allow_partial = list.allow_partial;
  flags.allow_undecided = list.allow_undecided;
  return WriteReportOf(invocation, comparison, flags);
}

}  // namespace msitd::msitctl
