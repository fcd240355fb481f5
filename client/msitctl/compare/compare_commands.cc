// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "client/ask/text/conclusion.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/ranges.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "client/msitctl/compare/judge_command.h"
#include "client/msitctl/compare/layout_hints.h"
#include "client/msitctl/compare/match_command.h"
#include "client/msitctl/compare/metric.h"
#include "client/msitctl/compare/pairing_note.h"
#include "client/msitctl/compare/report.h"
#include "client/msitctl/compare/run.h"
#include "client/msitctl/compare/sorted_rows.h"
#include "client/msitctl/compare/stats_command.h"
#include "client/msitctl/compare/wait.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/verdict_flag.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/verb/partial.h"
#include "client/msitctl/verb/selection_note.h"
#include "client/msitctl/verb/verbs.h"
#include "client/msitctl/verb/worker.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr char kComparisonColumns[] =
    "name,verdict=@verdict,state,golden=golden_run,target=target_run,"
    "golden_at?=golden_source,target_at?=target_source,"
    "judged_from?=judged_comparison,"
    "pass=pass_count,fail=fail_count,unmatched~=unmatched_count,"
    "skipped~=skipped_count,partial?=partial,restored_from?=restored_from,"
    "create_time?=create_time,"
    "end_time?=end_time";

// Gives options of a verb their headings in the help.
class Groups {
 public:
  explicit Groups(CLI::App& verb)
      : verb_(verb), grouped_count_(verb.get_options().size()) {}

  // Puts the options that were added since the last call into this group.
  void End(const std::string& name) {
    const std::vector<CLI::Option*> options = verb_.get_options();
    for (; grouped_count_ < options.size(); ++grouped_count_) {
      options[grouped_count_]->group(name);
    }
  }

 private:
  CLI::App& verb_;
  size_t grouped_count_;
};

void AddOutputFlags(CLI::App& verb, CompareFlags& flags) {
  verb.add_flag("--follow", flags.follow,
                "Print rows as tokens complete, until both runs are sealed");
  verb.add_flag("--detach", flags.detach,
                "Start the comparison, print it, and do not wait for its end. "
                "With --follow, it continues although its rows are not read");
  verb.add_option(
          "--rows", flags.rows,
          "Rows to print: fail for rows that fail or are unmatched, all, "
          "or none. Default: fail")
      ->check(OneOf({"fail", "all", "none"}))
      ->type_name("WHICH");
  verb.add_option("--out", flags.out,
                  "Write a report to this file. Its name ends in .html, .csv, "
                  ".xlsx, .jsonl, .xml (JUnit) or .md. compare report has "
                  "other formats. With "
                  "--engine: folder for the rows, as Parquet. All nodes must "
                  "share it; default: a new temporary folder")
      ->type_name("FILE|DIR");
  AddListFlags(verb, flags.list, RowColumnWords(),
               "Maximum number of rows to print, 0 for all; default 20 in a "
               "table, all with --follow and in other formats");
}

void AddRunFlags(CLI::App& verb, CompareFlags& flags) {
  Groups groups(verb);
  verb.add_option("GOLDEN,--golden", flags.golden, "The trusted run")
      ->type_name("RUN");
  verb.add_option("TARGET,--target", flags.target, "The run to judge")
      ->type_name("RUN");
  verb.add_option("--golden-endpoint", flags.golden_source,
                  "Daemon that has GOLDEN: host:port or unix:PATH, as listed "
                  "in the `peers` of the daemon that compares")
      ->type_name("ENDPOINT");
  AddSelectionFlags(verb, flags.selection);
  AddRequestFlag(verb, flags.selection);
  AddKindFlag(verb, flags.selection, /*takes_documents=*/false);
  groups.End("Select");
  AddMatchingFlags(verb, flags.matching);
  AddMatchFlags(verb, flags.match);
  groups.End("Pair");
  AddPolicyFlags(verb, flags.policy);
  AddPluginFlags(verb, "--plugin-name", flags.plugins);
  AddTexts(verb, "--watch", flags.watches,
           "Report rows for which this holds, and exit with 1: nan, inf, fail "
           "or a predicate such as 'max_abs > 10'; repeatable")
      ->type_name("CONDITION");
  AddPartialFlag(verb, flags.list.allow_partial);
  AddUndecidedFlag(verb, flags.list.allow_undecided);
  groups.End("Judge");
  verb.add_option("--read", flags.read,
                  "Data to read: bytes (of all pairs whose hashes differ), "
                  "unproven (bytes, except of pairs that summaries prove to "
                  "fail) or samples (at most 1024 elements of each tensor); "
                  "default bytes")
      ->check(OneOf({"bytes", "unproven", "samples"}))
      ->type_name("WHAT");
  AddWorkerFlag(verb, flags.at);
  groups.End("Read");
  AddOutputFlags(verb, flags);
  groups.End("Output");
  AddPartsFlags(verb, flags.parts);
  groups.End("Parts");
}

void AddRun(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<CompareFlags>();
  auto verb = std::make_shared<CLI::App*>();
  *verb = &line.AddVerb(
      noun,
      {.name = "run",
       .summary = "Compares two runs; exit code 1 if the target does not pass.",
       .examples =
           "msitctl compare run golden-fp32 tp8-bf16\n"
           "msitctl compare run golden-fp32 tp8-bf16 --out report.html\n"
           "msitctl compare run golden-fp32 tp8-bf16 --tokens 0 --io output "
           "--tol 'cosine >= 0.999'\n"
           "msitctl compare run golden-fp32 tp8-bf16 --rule '*.norm: max_abs "
           "<= 1e-3' --rows all -o csv\n"
           "msitctl compare run golden-fp32 tp8-bf16 --preset torch --rule "
           "'*lm_head: argmax_agreement == 1'\n"
           "msitctl compare run golden-tp1 tp8 --target-layout "
           "'*.q_proj=concat(-1)' --target-layout '*=replicated'\n"
           "msitctl compare run bsh sbh --target-view "
           "'*@output=permute(1,0,2)'\n"
           "msitctl compare run tp8 tp8-retry --ignore-placements\n"
           "msitctl compare run model graph --mapping-file graph.jsonl\n"
           "msitctl compare run fx-run ge-run --match ge-fx\n"
           "msitctl compare run golden-fp32 tp8-bf16 --plugin own.py:angle\n"
           "msitctl compare run golden-fp32 tp8-bf16 --engine ray --out "
           "/shared/rows",
       .rpcs = "ComparisonService.CreateComparison, "
               "ComparisonService.GetComparison, "
               "ComparisonService.ListComparisonRows, "
               "ComparisonService.StreamComparisonRows, "
               "ComparisonService.CancelComparison, "
               "TensorService.ReadTensor, "
               "ComparisonService.AddRowMetrics, "
               "AttachmentService.GetAttachment, "
               "AttachmentService.WriteAttachment, "
               "AttachmentService.DeleteAttachment, "
               "AttachmentService.ListAttachments, "
               "AttachmentService.ReadAttachment, "
               "RunService.GetRun, "
               "TensorService.ListTensors, "
               "NodeService.GetCapabilities",
       .takes_nodes = true},
      [flags, verb](Invocation& invocation) {
        flags->limit_is_given = (*verb)->count("--limit") > 0;
        return RunComparison(invocation, *flags);
      });
  AddRunFlags(**verb, *flags);
}

ask::ListLayout ComparisonLayout() {
  ask::ListLayout layout;
  layout.field = "comparisons";
  layout.columns = kComparisonColumns;
  layout.name = "name";
  layout.computed["verdict"] =
      [](const google::protobuf::Message& message) -> std::string {
    return ask::VerdictWord(static_cast<const v1::Comparison&>(message),
                            /*allowed=*/false);
  };
  return layout;
}

struct GetFlags {
  std::string name;
  bool wait = false;
  bool allow_partial = false;
  bool allow_undecided = false;

  ask::Allowed allowed() const { return {allow_partial, allow_undecided}; }
};

Seconds LengthOf(const v1::Comparison& comparison) {
  const auto seconds_of = [](const google::protobuf::Timestamp& time) {
    return static_cast<double>(time.seconds()) +
           static_cast<double>(time.nanos()) * 1e-9;
  };
  return Seconds(comparison.has_end_time()
                     ? seconds_of(comparison.end_time()) -
                           seconds_of(comparison.create_time())
                     : 0);
}

// Fields that the header of a comparison describes in words.
constexpr const char* kInHeader[] = {
    "makers",           "required_tolerances",   "concurrent_divergences",
    "input_difference", "first_divergence",      "first_origin",
    "first_inequality", "first_unmatched",       "first_non_finite",
    "first_skipped",    "both_non_finite_count", "first_both_non_finite",
    "layout_hints",     "pairing_hints",         "view_hints"};

ask::Outcome PrintOneComparison(Invocation& invocation,
                                const v1::Comparison& comparison,
                                ask::Allowed allowed) {
  if (!invocation.is_table()) return PrintOne(invocation, comparison, "name");
  invocation.out().Write(VerdictHeader(comparison, LengthOf(comparison),
                                       allowed, StyleOf(invocation)));
  invocation.out().Write("\n");
  return PrintOne(invocation, comparison, "name",
                  {std::begin(kInHeader), std::end(kInHeader)});
}

ask::Outcome GetOne(Invocation& invocation, const GetFlags& flags) {
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(invocation.AskByName(
      &v1::ComparisonService::Stub::GetComparison, flags.name, comparison));
  if (flags.wait) {
    const ask::Interrupts::Hold hold(invocation.interrupts());
    MSITCTL_RETURN_IF_FAILED(
        WaitForComparison(invocation, IfWaitEnds::kLeave, comparison));
  }
  PartialNotice partial(invocation);
  partial.See(comparison);
  MSITCTL_RETURN_IF_FAILED(
      PrintOneComparison(invocation, comparison, flags.allowed()));
  if (invocation.is_table()) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    TellLayoutHints(comparison);
    TellPairingHints(comparison);
  }
  return flags.wait ? OutcomeOf(comparison, flags.allowed())
                    : partial.End(flags.allow_partial);
}

void AddGetComparison(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<GetFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "get",
       .summary = "Prints one comparison: verdict, counts, first divergence.",
       .examples = "msitctl compare get c-000001\n"
                   "msitctl compare get c-000001 --wait",
       .rpcs = "ComparisonService.GetComparison",
       .takes_nodes = true},
      [flags](Invocation& invocation) { return GetOne(invocation, *flags); });
  AddComparisonName(verb, flags->name);
  verb.add_flag("--wait", flags->wait,
                "Wait for its end, and exit as compare run does: 1 if it does "
                "not pass");
  AddPartialFlag(verb, flags->allow_partial);
  AddUndecidedFlag(verb, flags->allow_undecided);
}

struct RowsFlags {
  std::string name;
  std::vector<std::string> verdicts;
  std::string rows;
  std::vector<std::string> ops;
  std::string sort_by;
  ListFlags list;
};

// Rows that one request may select by number.
constexpr size_t kRowNumbersMax = 1000;

ask::Outcome ToRequest(const RowsFlags& flags,
                       v1::ListComparisonRowsRequest& request) {
  std::vector<v1::Verdict> verdicts;
  MSITCTL_ASSIGN_OR_USAGE(verdicts, ParseVerdicts(flags.verdicts));
  request = RowsRequest(flags.name, verdicts);
  if (!flags.rows.empty()) {
    const auto ranges = ask::ParseRanges(flags.rows, INT64_MAX - 1);
    if (!ranges.ok()) {
      return ask::UsageError(
          fmt::format("--row: {}", Message(ranges.status())));
    }
    for (const ask::Range& range : *ranges) {
      const auto room =
          static_cast<int64_t>(kRowNumbersMax) - request.rows_size();
      if (range.last - range.first >= room) {
        return ask::UsageError(
            fmt::format("--row: more than {} rows", kRowNumbersMax));
      }
      for (int64_t row = range.first; row <= range.last; ++row) {
        request.add_rows(row);
      }
    }
  }
  for (const std::string& op : ask::SplitLists(flags.ops)) {
    request.add_op_patterns(op);
  }
  return {};
}

// Returns the flags that select rows, as the user would type them.
std::string TextOf(const RowsFlags& flags) {
  std::vector<std::string> texts;
  for (const std::string& list : flags.verdicts) {
    texts.push_back(fmt::format("--verdict {}", list));
  }
  if (!flags.rows.empty()) texts.push_back(fmt::format("--row {}", flags.rows));
  for (const std::string& ops : flags.ops) {
    texts.push_back(FlagText("--ops", ops));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

ask::Outcome Rows(Invocation& invocation, const RowsFlags& flags) {
  v1::ListComparisonRowsRequest request;
  MSITCTL_RETURN_IF_FAILED(ToRequest(flags, request));
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(invocation.AskByName(
      &v1::ComparisonService::Stub::GetComparison, flags.name, comparison));
  PartialNotice partial(invocation);
  partial.See(comparison);
  const auto when_empty = [&] {
    NoteNoRow(comparison.name(), ask::RowCountOf(comparison), TextOf(flags));
  };
  MSITCTL_RETURN_IF_FAILED(
      flags.sort_by.empty()
          ? PrintRows(invocation, comparison, request, flags.list, when_empty)
          : PrintSortedRows(invocation, comparison, request, flags.sort_by,
                            flags.list, when_empty));
  return partial.End(flags.list.allow_partial);
}

void AddRows(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<RowsFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "rows",
       .summary = "Prints the rows of a comparison in execution order.",
       .examples = "msitctl compare rows c-000001 --verdict fail,unmatched\n"
                   "msitctl compare rows c-000001 --row 57\n"
                   "msitctl compare rows c-000001 --ops '*.attention' "
                   "--sort-by nl2 --limit 10\n"
                   "msitctl compare rows c-000001 -o csv\n"
                   "msitctl compare rows c-000001 --columns "
                   "op,verdict,metrics.sqnr_db",
       .rpcs = "ComparisonService.GetComparison, "
               "ComparisonService.ListComparisonRows, "
               "NodeService.GetCapabilities",
       .takes_nodes = true},
      [flags](Invocation& invocation) { return Rows(invocation, *flags); });
  AddComparisonName(verb, flags->name);
  AddVerdictFlag(verb, flags->verdicts);
  verb.add_option("--row", flags->rows,
                  "Numbers of rows, such as 57 or 3,10-12; at most 1000")
      ->check(NotEmpty())
      ->type_name("LIST");
  AddTexts(verb, "--ops", flags->ops,
           "Patterns of ops, such as '*.q_proj'; separated by commas, "
           "repeatable")
      ->type_name("LIST");
  verb.add_option("--sort-by", flags->sort_by,
                  "A metric: the worst rows first, at most 10000")
      ->type_name("METRIC");
  AddPartialFlag(verb, flags->list.allow_partial);
  AddListFlags(verb, flags->list, RowColumnWords());
}

void AddFormat(CLI::App& verb, ReportFlags& flags) {
  verb.add_option(
          "--format", flags.format,
          "csv, jsonl, xlsx, html, junit, markdown, model-explorer (a graph of "
          "all ops), model-explorer-data (verdicts for its nodes), msit (its "
          "24 columns), msprobe, advice; default by the end of --out, else "
          "csv. msit and msprobe are workbooks if --out ends with .xlsx, JSON "
          "lines if with .jsonl, a page if with .html")
      ->check(OneOf({"csv", "jsonl", "xlsx", "html", "junit", "markdown",
                     "model-explorer", "model-explorer-data", "msit", "msprobe",
                     "advice"}))
      ->type_name("FORMAT");
}

void AddReport(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<ReportFlags>();
  auto node = std::make_shared<std::string>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "report",
       .summary = "Writes a report of a stored comparison to a file.",
       .examples =
           "msitctl compare report c-000001 --out report.html\n"
           "msitctl compare report c-000001 --out report.html --histograms "
           "1000\n"
           "msitctl compare report latest --out summary.md\n"
           "msitctl compare report c-000001 --format msit --out "
           "msit_cmp_report.xlsx\n"
           "msitctl compare report c-000001 --format msprobe --mode summary\n"
           "msitctl --endpoints node1:7741,node2:7741 compare report "
           "c-000001@node1:7741 --out report.html",
       .rpcs = "ComparisonService.GetComparison, "
               "ComparisonService.ListComparisonRows, "
               "NodeService.GetCapabilities, RunService.GetRun, "
               "TensorService.ComputeHistogram, TensorService.ListTensors",
       .takes_nodes = true},
      [flags, node](Invocation& invocation) -> ask::Outcome {
        if (invocation.node_fanout() == nullptr && node->empty()) {
          return WriteReport(invocation, *flags);
        }
        MSITCTL_RETURN_IF_FAILED(
            FindComparison(invocation, flags->name, *node));
        return AtOneNode(invocation, *node, [&flags](Invocation& one) {
          return WriteReport(one, *flags);
        });
      });
  AddComparisonName(verb, flags->name);
  verb.add_option("--at", *node,
                  "With --endpoints: the node that has the comparison, if "
                  "several have one of that name")
      ->type_name("NODE");
  AddFormat(verb, *flags);
  verb.add_option("--out", flags->out, "File to write; - is stdout")
      ->type_name("FILE");
  verb.add_option("--mode", flags->mode,
                  "Mode of msprobe: all (from tensors), summary or md5; "
                  "default all")
      ->check(OneOf({"all", "summary", "md5"}))
      ->type_name("MODE");
  verb.add_flag(
      "--compat", flags->is_compat,
      "With --format msprobe: judge rows as msprobe does, which passes some "
      "that fail or cannot be compared");
  verb.add_option("--rules", flags->rules,
                  "With --format msprobe or advice: YAML with thresholds and "
                  "lists that replace the default ones")
      ->type_name("FILE");
  verb.add_option("--histograms", flags->histograms,
                  "With --format html: number of rows with histograms of both "
                  "sides. Rows that fail are first; default 200, at most "
                  "10000, 0 for none")
      ->check(WholeNumber(0, ask::kHistogramRowsMax))
      ->type_name("N");
  AddVerdictFlag(verb, flags->verdicts);
  AddPartialFlag(verb, flags->allow_partial);
  AddUndecidedFlag(verb, flags->allow_undecided);
}

void AddMetric(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<MetricFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "metric",
       .summary = "Adds metrics of your own to a stored comparison.",
       .examples =
           "msitctl compare metric c-000001 --plugin own.py:angle\n"
           "msitctl compare metric c-000001 --plugin own.py:angle --name "
           "angle_deg --verdict fail\n"
           "msitctl compare metric c-000001 --plugin own.py:angle --plugin "
           "other.py:ssim --python venv/bin/python",
       .rpcs = "ComparisonService.GetComparison, "
               "ComparisonService.ListComparisonRows, "
               "TensorService.ReadTensor, "
               "ComparisonService.AddRowMetrics"},
      [flags](Invocation& invocation) {
        return MeasureComparison(invocation, *flags);
      });
  AddComparisonName(verb, flags->comparison);
  AddPluginFlags(verb, "--name,--plugin-name", flags->plugins);
  AddVerdictFlag(verb, flags->verdicts);
}

std::string DeleteQuestion(const v1::Comparison& comparison) {
  return fmt::format(
      "Delete comparison {} of {} and {} with its rows?", comparison.name(),
      ask::RunPlaceText(comparison.golden_run(), comparison.golden_source()),
      ask::RunPlaceText(comparison.target_run(), comparison.target_source()));
}

}  // namespace

void AddCompareCommands(CommandLine& line) {
  CLI::App& noun =
      line.AddNoun("compare", "Comparisons: two runs set side by side.",
                   "msitctl compare run golden-fp32 tp8-bf16\n"
                   "msitctl compare rows c-000001 --verdict fail");
  using Stub = v1::ComparisonService::Stub;
  AddRun(line, noun);
  AddListVerb(line, noun,
              {.name = "list",
               .summary = "Lists comparisons, oldest first.",
               .examples = "msitctl compare list",
               .rpcs = "ComparisonService.ListComparisons",
               .takes_nodes = true},
              ComparisonLayout(), &Stub::ListComparisons);
  AddGetComparison(line, noun);
  AddRows(line, noun);
  AddRowStatsVerb(line, noun);
  AddReport(line, noun);
  AddJudgeVerb(line, noun);
  AddMetric(line, noun);
  AddNamedVerb(line, noun,
               {.name = "cancel",
                .summary = "Stops a comparison; its rows so far are kept.",
                .examples = "msitctl compare cancel c-000001",
                .rpcs = "ComparisonService.CancelComparison",
                .takes_nodes = true},
               AddComparisonName, "name", &Stub::CancelComparison);
  AddDeleteVerb(line, noun,
                {.name = "delete",
                 .summary = "Removes a comparison with its rows. Asks on a "
                            "terminal.",
                 .examples = "msitctl compare delete c-000001\n"
                             "msitctl compare delete c-000001 --yes",
                 .rpcs = "ComparisonService.DeleteComparison, "
                         "ComparisonService.GetComparison",
                 .takes_nodes = true},
                AddComparisonName, "comparison", &Stub::GetComparison,
                DeleteQuestion, &Stub::DeleteComparison);
  // AddRunCommands has created the noun.
  AddMatchVerb(line, *line.app().get_subcommand("run"));
}

}  // namespace msitd::msitctl
