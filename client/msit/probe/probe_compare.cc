// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/probe_compare.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "client/ask/report/report_writer.h"
#include "client/ask/report/table/sinks.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/yaml_text.h"
#include "client/foreign/match/match.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/trees/msprobe/msprobe_index.h"
#include "client/foreign/trees/tree.h"
#include "client/msit/compare/folder_problems.h"
#include "client/msit/compare/run_pair.h"
#include "client/msit/probe/dump_pairs.h"
#include "client/msit/probe/probe_workbook.h"
#include "client/msit/table/output_file.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

using report::MsprobeMode;
using trees::MsprobeIndex;

constexpr char kTensorTask[] = "tensor";

// A mapping file and the function that parses it.
struct MappingFile {
  const char* flag;
  std::string ProbeCompareOptions::*path;
  absl::Status (*read)(std::string_view, match::MsprobeMapping&);
};

constexpr MappingFile kMappingFiles[] = {
    {"-dm", &ProbeCompareOptions::data_mapping, match::ReadDataMapping},
    {"-cm", &ProbeCompareOptions::cell_mapping, match::ReadCellMapping},
    {"-am", &ProbeCompareOptions::api_mapping, match::ReadApiMapping},
    {"-lm", &ProbeCompareOptions::layer_mapping, match::ReadLayerMapping}};

// Returns the options of the matcher; nothing if tensors are paired by name.
absl::StatusOr<std::optional<match::MatchOptions>> ReadProbeMappings(
    const ProbeCompareOptions& options) {
  match::MatchOptions out;
  bool is_mapped = options.maps_frameworks;
  for (const MappingFile& file : kMappingFiles) {
    const std::string& path = options.*file.path;
    if (path.empty()) continue;
    is_mapped = true;
    const auto text = ask::ReadTextFile(path, ask::kYamlBytesMax);
    const absl::Status read =
        text.ok() ? file.read(*text, out.msprobe) : text.status();
    if (!read.ok()) {
      return Annotate(read, fmt::format("{} {}", file.flag, path));
    }
  }
  if (!is_mapped) return std::nullopt;
  // msprobe compares receive buffers like all other tensors.
  return out;
}

// A pair of dumps, and what they recorded.
struct ProbeSides {
  MsprobeIndex golden;
  MsprobeIndex target;
  MsprobeMode mode = MsprobeMode::kSummary;
};

absl::StatusOr<ProbeSides> ReadSides(const ProbePair& pair) {
  MSITD_ASSIGN_OR_RETURN(MsprobeIndex golden,
                         MsprobeIndex::Read(pair.golden, pair.source));
  MSITD_ASSIGN_OR_RETURN(MsprobeIndex target,
                         MsprobeIndex::Read(pair.target, pair.source));
  if (golden.task() != target.task()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} has the task {} and {} the task {}; record both with "
                      "the same task",
                      pair.golden, Quoted(golden.task()), pair.target,
                      Quoted(target.task()));
  }
  MsprobeMode mode = MsprobeMode::kSummary;
  if (target.task() == kTensorTask) {
    mode = MsprobeMode::kAll;
  } else if (golden.has_checksums() && target.has_checksums()) {
    mode = MsprobeMode::kMd5;
  } else if (golden.has_checksums() != target.has_checksums()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} has checksums and {} has none; record both with the "
                      "same summary_mode",
                      golden.has_checksums() ? pair.golden : pair.target,
                      golden.has_checksums() ? pair.target : pair.golden);
  }
  return ProbeSides{std::move(golden), std::move(target), mode};
}

class ProbeComparison {
 public:
  ProbeComparison(const ProbeCompareOptions& options,
                  ask::Interrupts& interrupts, Logger& log)
      : options_(options),
        interrupts_(interrupts),
        log_(log),
        output_(AbsolutePath(options.output)) {}

  absl::Status Run();

  // The paths of the reports that were written.
  const std::vector<std::string>& reports() const { return reports_; }

 private:
  absl::Status ComparePair(const ProbePair& pair);
  absl::Status Import(const ProbePair& pair);
  // Writes the report of a pair that was imported.
  absl::Status WriteReport(const ProbePair& pair, const ProbeSides& sides);
  // Compares, and passes the rows to all writers.
  absl::Status CompareInto(const std::vector<ask::ReportWriter*>& writers);
  v1::Comparison Request() const;
  absl::Status WriteAdvice(const std::string& label, const std::string& text);

  const ProbeCompareOptions& options_;
  ask::Interrupts& interrupts_;
  Logger& log_;
  const std::string output_;
  std::optional<match::MatchOptions> mappings_;
  std::unique_ptr<RunPair> runs_;
  // The runs of the current pair, whose names are unique.
  std::string golden_run_;
  std::string target_run_;
  std::vector<std::string> reports_;
};

absl::Status ProbeComparison::Run() {
  // A signal between two calls must not leave a store on the disk.
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_ASSIGN_OR_RETURN(mappings_, ReadProbeMappings(options_));
  MSITD_ASSIGN_OR_RETURN(const ProbePairs found,
                         FindProbePairs(options_.golden, options_.target));
  MSITD_RETURN_IF_ERROR(Annotate(CheckReportFolder(output_), "-o"));
  for (const std::string& warning : found.warnings) log_.Warning(warning);
  MSITD_ASSIGN_OR_RETURN(runs_, RunPair::Start(interrupts_));
  for (size_t i = 0; i < found.pairs.size(); ++i) {
    golden_run_ = fmt::format("{}-{}", kGoldenRun, i);
    target_run_ = fmt::format("{}-{}", kMyRun, i);
    MSITD_RETURN_IF_ERROR(ComparePair(found.pairs[i]));
  }
  return absl::OkStatus();
}

absl::Status ProbeComparison::ComparePair(const ProbePair& pair) {
  MSITD_ASSIGN_OR_RETURN(const ProbeSides sides, ReadSides(pair));
  MSITD_RETURN_IF_ERROR(Import(pair));
  return WriteReport(pair, sides);
}

absl::Status ProbeComparison::Import(const ProbePair& pair) {
  const auto open = [&pair](const std::string& path) {
    auto tree = trees::OpenTree(
        path, {.kind = trees::TreeKind::kMsprobe,
               .record_file = std::string(MsprobeIndex::FileOf(pair.source))});
    return tree.ok() ? std::move(tree) : Annotate(tree.status(), path);
  };
  MSITD_ASSIGN_OR_RETURN(const auto golden, open(pair.golden));
  MSITD_ASSIGN_OR_RETURN(const auto target, open(pair.target));
  const auto side = [](const std::string& run, trees::Tree& tree,
                       const std::string& root) {
    return RunPair::Side{.run = run,
                         .tree = &tree,
                         .root = root,
                         .token = 0,
                         .takes_substitutes = true};
  };
  return runs_->ImportBoth(
      side(golden_run_, *golden, pair.golden),
      side(target_run_, *target, pair.target), [] {}, log_);
}

v1::Comparison ProbeComparison::Request() const {
  v1::Comparison out;
  out.mutable_policy()->set_preset(v1::Policy::MSPROBE);
  for (int kind = 0; kind < kRecordKindCount; ++kind) {
    if (static_cast<RecordKind>(kind) == RecordKind::kDocument) continue;
    out.mutable_filter()->add_kinds(static_cast<v1::RecordKind>(kind));
  }
  out.mutable_matching()->set_fuzzy(options_.is_fuzzy);
  return out;
}

absl::Status ProbeComparison::CompareInto(
    const std::vector<ask::ReportWriter*>& writers) {
  std::optional<match::Mapping> mapping;
  if (mappings_.has_value()) {
    MSITD_ASSIGN_OR_RETURN(mapping,
                           runs_->Match(golden_run_, target_run_,
                                        match::Matcher::kMsprobe, *mappings_));
    TellOfMapping(*mapping, 0, "", log_);
  }
  bool has_begun = false;
  const auto begin = [&](const v1::Comparison& comparison) -> absl::Status {
    if (std::exchange(has_begun, true)) return absl::OkStatus();
    for (ask::ReportWriter* const writer : writers) {
      MSITD_RETURN_IF_ERROR(writer->Begin(comparison));
    }
    return absl::OkStatus();
  };
  v1::Comparison comparison = Request();
  MSITD_RETURN_IF_ERROR(
      runs_->Compare(golden_run_, target_run_,
                     mapping.has_value() ? &*mapping : nullptr, comparison,
                     [&](const v1::Comparison& state,
                         const v1::ComparisonRow& row) -> absl::Status {
                       MSITD_RETURN_IF_ERROR(begin(state));
                       for (ask::ReportWriter* const writer : writers) {
                         MSITD_RETURN_IF_ERROR(writer->Add(row));
                       }
                       return absl::OkStatus();
                     }));
  MSITD_RETURN_IF_ERROR(begin(comparison));
  log_.Info(fmt::format(
      "{} rows: {} equal within the tolerances, {} different, {} without a "
      "counterpart, {} not compared",
      comparison.pass_count() + comparison.fail_count() +
          comparison.unmatched_count() + comparison.skipped_count(),
      comparison.pass_count(), comparison.fail_count(),
      comparison.unmatched_count(), comparison.skipped_count()));
  return absl::OkStatus();
}

absl::Status ProbeComparison::WriteReport(const ProbePair& pair,
                                          const ProbeSides& sides) {
  MSITD_RETURN_IF_ERROR(MakeReportFolder(output_));
  const bool is_debug = pair.source == MsprobeIndex::Source::kDebug;
  const std::string stem =
      fmt::format("{}compare_result{}_{}", is_debug ? "debug_" : "", pair.label,
                  UtcTimeStamp());
  report::MsprobeReport report;
  report.mode = sides.mode;
  report.is_compat = options_.is_compat;
  report.trusts_rules = true;
  report.pairs_all_dtypes = !options_.data_mapping.empty();
  report.golden_dump = &sides.golden;
  report.target_dump = &sides.target;
  std::string advice;
  const auto adviser =
      report::MakeAdviceReport(report, [&advice](std::string_view bytes) {
        advice += bytes;
        return absl::OkStatus();
      });
  MSITD_ASSIGN_OR_RETURN(
      const std::string path,
      WriteReportFile(output_, stem, options_.is_xlsx ? ".xlsx" : ".csv",
                      [&](const ByteTake& take) -> absl::Status {
                        const auto table = ask::MakeTableReport(
                            report::MakeMsprobeSchema(report),
                            options_.is_xlsx
                                ? MakeProbeWorkbook(
                                      take, sides.mode == MsprobeMode::kSummary)
                                : ask::MakeCsvSink(take));
                        std::vector<ask::ReportWriter*> writers = {table.get()};
                        if (options_.writes_advice)
                          writers.push_back(adviser.get());
                        MSITD_RETURN_IF_ERROR(CompareInto(writers));
                        MSITD_ASSIGN_OR_RETURN(const std::string note,
                                               table->Finish());
                        if (!note.empty()) log_.Warning(note);
                        return absl::OkStatus();
                      }));
  reports_.push_back(path);
  if (!options_.is_intermediate) {
    log_.Info("The comparison result is saved in " + path);
  }
  if (!options_.writes_advice) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(adviser->Finish().status());
  return WriteAdvice(pair.label, advice);
}

absl::Status ProbeComparison::WriteAdvice(const std::string& label,
                                          const std::string& text) {
  MSITD_ASSIGN_OR_RETURN(
      const std::string path,
      WriteReportFile(
          output_, fmt::format("advisor{}_{}", label, UtcTimeStamp()), ".txt",
          [&text](const ByteTake& take) { return take(text); }));
  log_.Info("The advice is saved in " + path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CompareProbeDumps(
    const ProbeCompareOptions& options, ask::Interrupts& interrupts,
    Logger& log) {
  ProbeComparison comparison(options, interrupts, log);
  MSITD_RETURN_IF_ERROR(comparison.Run());
  return comparison.reports();
}

}  // namespace msitd::msit_command
