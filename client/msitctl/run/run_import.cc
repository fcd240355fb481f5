// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/run_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/ask/print/progress.h"
#include "client/ask/text/text.h"
#include "client/foreign/fill/import_job.h"
#include "client/foreign/fill/run_target.h"
#include "client/foreign/names/call_order.h"
#include "client/foreign/trees/tree.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/run/import_place.h"
#include "client/msitctl/run/import_result.pb.h"
#include "client/msitctl/run/run_keep.h"
#include "client/msitctl/verb/pages.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

struct ImportFlags : ImportPlaceFlags {
  std::vector<std::string> paths;
  KeepFlags keep;
  bool device_ranks = false;
  bool dry_run = false;
  bool keep_open = false;
  bool seal = false;
  std::string order;
};

struct OpenedTree {
  std::string path;
  std::unique_ptr<trees::Tree> tree;
};

// The trees of one import, which are all of one kind.
struct OpenedTrees {
  std::vector<OpenedTree> trees;
  trees::TreeKind kind = trees::TreeKind::kFiles;
  // As specified by the trees; 0 if they do not specify it.
  int32_t world_size = 0;
  // True if the order in which tensors were computed is known for all of them.
  bool has_known_order = true;
};

constexpr std::string_view kInOrder = "names";

// Names of ignored files, in the result and on stderr.
constexpr int kLeftOutShownMax = 16;
constexpr int kLeftOutTextsMax = 3;

// Orders files that a shell has sorted by their bytes. Folders keep their
// positions.
std::vector<std::string> OrderFiles(std::vector<std::string> paths) {
  const bool are_files =
      std::all_of(paths.begin(), paths.end(), [](const std::string& path) {
        std::error_code error;
        return std::filesystem::is_regular_file(path, error);
      });
  if (are_files) std::sort(paths.begin(), paths.end(), names::EndsBefore);
  return paths;
}

ask::Outcome OpenTrees(const ImportFlags& flags, OpenedTrees& out) {
  trees::TreeOptions options;
  MSITCTL_RETURN_IF_FAILED(ReadSource(flags, options.kind));
  options.mapping_folder = flags.mapping_folder;
  options.devices_are_ranks = flags.device_ranks;
  options.is_in_order = flags.order == kInOrder;
  options.is_rank_said = flags.rank.has_value();
  MSITCTL_RETURN_IF_FAILED(
      ReadNamePattern(flags, options.kind, options.name_pattern));
  for (const std::string& path : OrderFiles(flags.paths)) {
    auto tree = trees::OpenTree(path, options);
    if (!tree.ok()) return ask::LocalError(Message(tree.status()));
    const trees::TreeKind kind = (*tree)->kind();
    if (!out.trees.empty() && kind != out.kind) {
      return ask::UsageError(
          fmt::format("{} is of format {}, and {} of format {}: import them "
                      "into separate runs",
                      out.trees[0].path, trees::TreeKindName(out.kind), path,
                      trees::TreeKindName(kind)));
    }
    out.kind = kind;
    const std::vector<int32_t> ranks = (*tree)->ranks();
    int32_t world_size = (*tree)->world_size();
    if (!flags.rank && !ranks.empty()) {
      world_size = std::max(world_size, ranks.back() + 1);
    }
    out.world_size = std::max(out.world_size, world_size);
    out.has_known_order = out.has_known_order && (*tree)->has_known_order();
    out.trees.push_back({path, *std::move(tree)});
  }
  return {};
}

ImportResult ResultOf(const ImportFlags& flags, const OpenedTrees& trees,
                      const fill::ImportJob& job, bool is_sealed) {
  ImportResult result;
  result.set_run(flags.run);
  result.set_source(std::string(trees::TreeKindName(trees.kind)));
  SetCounts(job, result);
  result.set_sealed(is_sealed);
  result.set_order_unknown(!trees.has_known_order);
  for (const OpenedTree& opened : trees.trees) {
    const trees::LeftOutFiles left_out = opened.tree->left_out();
    result.set_left_out_count(result.left_out_count() + left_out.count);
    for (const std::string& file : left_out.first) {
      if (result.left_out_files_size() == kLeftOutShownMax) break;
      result.add_left_out_files(ask::Printable(file));
    }
  }
  return result;
}

std::string ClosingLine(const ImportFlags& flags, const ImportResult& result,
                        bool is_over) {
  // After an error, some of the records that were sent may not have arrived.
  const char* const sent = is_over ? "imported" : "sent";
  std::string line =
      fmt::format("{} {} files of {}", flags.dry_run ? "found" : sent,
                  result.file_count(), result.source());
  if (!flags.dry_run)
    line += fmt::format(" into {}", ask::Printable(flags.run));
  line +=
      fmt::format(": {} tensors, {} values, {}", result.tensor_count(),
                  result.value_count(), ask::HumanSize(result.size_bytes()));
  const auto add = [&line](int64_t count, const char* what) {
    if (count != 0) line += fmt::format(", {} {}", count, what);
  };
  add(result.statistics_count(), "statistics");
  add(result.document_count(), "documents");
  add(result.attachment_count(), "attachments");
  line += fmt::format("; {} skipped, {} problems", result.skipped_file_count(),
                      result.problem_count());
  add(result.filtered_count(), "filtered");
  add(result.conflict_count(), "conflicts");
  add(result.left_out_count(), "left out");
  add(result.object_count(), "objects not imported");
  return line + KeptText(result) + "\n";
}

// Prints on stderr the notes that the counts do not include.
void TellImportNotes(const ImportResult& result) {
  const auto& files = result.left_out_files();
  const int shown = std::min(files.size(), kLeftOutTextsMax);
  if (result.left_out_count() > 0) {
    fmt::print(
        stderr,
        "skipped {} {} whose names begin with a dot or end with .swp: {}{}\n",
        result.left_out_count(),
        result.left_out_count() == 1 ? "file or folder" : "files and folders",
        fmt::join(files.begin(), files.begin() + shown, ", "),
        result.left_out_count() > shown ? ", ..." : "");
  }
  if (!result.order_unknown() || result.tensor_count() < 2) return;
  fmt::print(stderr,
             "the files do not record in which order their tensors were "
             "computed, so comparisons report no cause; if their names are in "
             "this order, use --order {}\n",
             kInOrder);
}

// Prints the result, also if the import ended early.
ask::Outcome Tell(Invocation& invocation, const ImportFlags& flags,
                  const OpenedTrees& trees, const fill::ImportJob& job,
                  bool is_over, bool is_sealed) {
  const ImportResult result = ResultOf(flags, trees, job, is_sealed);
  if (!flags.dry_run && invocation.is_table()) TellImportNotes(result);
  if (invocation.is_table()) PrintObjects(result);
  TellProblems(job.problems());
  TellConflicts(result);
  if (!invocation.is_table()) return PrintOne(invocation, result, "run");
  invocation.out().Write(ClosingLine(flags, result, is_over));
  return {};
}

// Shows the progress of an import on stderr.
class ImportProgress {
 public:
  explicit ImportProgress(const Invocation& invocation)
      : line_(invocation.options().progress,
              invocation.options().terminal.stderr_width) {}

  void Show(const fill::ImportCounts& counts, int64_t problem_count) {
    const std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - start_time_;
    const double rate =
        static_cast<double>(counts.size_bytes) / std::max(passed.count(), 1e-3);
    line_.Show(fmt::format("{} files, {}, {}/s; {} skipped, {} problems",
                           counts.file_count, ask::HumanSize(counts.size_bytes),
                           ask::HumanSize(static_cast<int64_t>(rate)),
                           counts.skipped_file_count, problem_count));
  }
  void Clear() { line_.Clear(); }

 private:
  ask::Progress line_;
  const std::chrono::steady_clock::time_point start_time_ =
      std::chrono::steady_clock::now();
};

// Sends all trees. The result is shown in any case.
ask::Outcome RunJob(Invocation& invocation, const ImportFlags& flags,
                    OpenedTrees& trees, RunKeep& keep, fill::RunTarget& target,
                    fill::ImportLedger& ledger, ImportProgress& progress) {
  fill::ImportOptions options = JobOptions(flags, invocation);
  options.is_dry_run = flags.dry_run;
  options.takes_substitutes = flags.seal;
  options.deriver = keep.deriver();
  fill::ImportJob job(std::move(options), target, ledger);
  absl::Status status;
  for (OpenedTree& opened : trees.trees) {
    status = job.Import(*opened.tree, opened.path);
    if (!status.ok()) break;
  }
  progress.Clear();
  const bool is_whole =
      status.ok() && (flags.seal || !job.problems().may_pass());
  ask::Outcome sealed;
  if (is_whole && !flags.keep_open && !flags.dry_run) sealed = target.Seal();
  const bool is_sealed = target.run().state() == v1::Run::SEALED;
  const ask::Outcome told =
      Tell(invocation, flags, trees, job, status.ok(), is_sealed);
  if (absl::IsInvalidArgument(status)) return ask::UsageError(Message(status));
  MSITCTL_RETURN_IF_FAILED(OutcomeOfImport(status));
  MSITCTL_RETURN_IF_FAILED(sealed);
  MSITCTL_RETURN_IF_FAILED(told);
  if (!is_whole && !flags.keep_open && !flags.dry_run && !is_sealed) {
    fmt::print(stderr,
               "run {} stays open: import the missing or unreadable files "
               "again, or use --seal to seal it without them\n",
               ask::Printable(flags.run));
  }
  const bool is_partial =
      job.problems().count() != 0 || job.counts().conflict_count != 0;
  return {is_partial ? ask::kExitPartial : ask::kExitOk, ""};
}

ask::Outcome Import(Invocation& invocation, const ImportFlags& flags) {
  if (flags.run.empty() && !flags.dry_run) {
    return ask::UsageError("--run is required: the run to import into");
  }
  // A signal ends the import in an orderly manner.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  OpenedTrees trees;
  MSITCTL_RETURN_IF_FAILED(OpenTrees(flags, trees));
  RunKeep keep(invocation, flags.keep);
  MSITCTL_RETURN_IF_FAILED(keep.LoadFunction(
      [&invocation] { return invocation.interrupts().interrupted(); }));
  const std::string source(trees::TreeKindName(trees.kind));
  fill::ImportLedger ledger(source);
  ImportProgress progress(invocation);
  fill::RunTarget target(
      invocation, flags.run, JobOptions(flags, invocation).patience,
      [&progress](const fill::ImportCounts& counts, int64_t problem_count) {
        progress.Show(counts, problem_count);
      });
  if (!flags.dry_run) {
    const fill::RunTarget::Content content = {
        .source = source,
        .world_size = WorldSizeOf(flags, trees.world_size),
        .is_world_size_said = flags.world_size.has_value(),
        .has_known_order = trees.has_known_order};
    MSITCTL_RETURN_IF_FAILED(target.Prepare(content));
    MSITCTL_RETURN_IF_FAILED(
        keep.SetPolicy(flags.run, /*must_be_whole=*/false));
    MSITCTL_RETURN_IF_FAILED(target.LoadLedger(source, ledger));
    MSITCTL_RETURN_IF_FAILED(keep.SetFunction(target.run(), target));
  }
  return RunJob(invocation, flags, trees, keep, target, ledger, progress);
}

void AddImportFlags(CLI::App& verb, ImportFlags& flags) {
  verb.add_option("PATH", flags.paths, "Folders or files to import")
      ->required()
      ->type_name("PATH...");
  AddImportPlaceFlags(verb, flags);
  AddKeepFlags(verb, flags.keep);
  verb.add_flag(
      "--device-ranks", flags.device_ranks,
      "GE, MindIE and FX without folders of ranks: number the devices as ranks "
      "from 0, in ascending order. For FX, each graph is a device, in the "
      "order of their times");
  verb.add_option("--order", flags.order,
                  "Order of execution, for files and dumps that do not record "
                  "it. names: by name, with numbers sorted by value and parts "
                  "of a module before the module. A dump of msit is sorted by "
                  "the times of its files. Default: unknown, so comparisons "
                  "report no first op and no cause")
      ->check(CLI::IsMember({std::string(kInOrder)}))
      ->type_name("names");
  verb.add_flag(
      "--dry-run", flags.dry_run,
      "Open all files and report what would be imported, without a daemon");
  CLI::Option* const keep_open =
      verb.add_flag("--keep-open", flags.keep_open,
                    "Do not seal the run, so that more can be imported");
  verb.add_flag("--seal", flags.seal,
                "Seal the run even if files are missing or unreadable. "
                "Statistics that a dump has of a missing tensor are recorded "
                "in its place")
      ->excludes(keep_open);
}

}  // namespace

void AddImport(CommandLine& line, CLI::App& run) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App& verb = line.AddVerb(
      run,
      {.name = "import",
       .summary = "Import files of other tools into a run, and seal it. If "
                  "repeated, only new files are imported.",
       .examples = "msitctl run import /dump/ge --run golden-fp32\n"
                   "msitctl run import a.npy weights.safetensors --run parts\n"
                   "msitctl run import /dump/ge --run npu --keep summary\n"
                   "msitctl run import /dump --run own --name-pattern "
                   "'rank{rank}_step{token}_{op}'\n"
                   "msitctl run import /dump --dry-run",
       .rpcs = "RunService.CreateRun, RunService.GetRun, RunService.SealRun, "
               "AttachmentService.WriteAttachment, "
               "AttachmentService.ReadAttachment, IngestService.WriteChunks, "
               "CaptureService.GetCapturePolicy, "
               "CaptureService.SetCapturePolicy"},
      [flags](Invocation& invocation) { return Import(invocation, *flags); });
  AddImportFlags(verb, *flags);
}

}  // namespace msitd::msitctl
