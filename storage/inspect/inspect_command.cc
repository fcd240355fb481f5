// SPDX-License-Identifier: Apache-2.0
#include "storage/inspect/inspect_command.h"

#include <fmt/ostream.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>

#include "protos/status/status.h"
#include "storage/check/store_check.h"
#include "storage/env/env.h"
#include "storage/inspect/store_dump.h"
#include "storage/rebuild/index_rebuild.h"

namespace msitd::storage {
namespace {

InspectExit Failed(const absl::Status& status, std::ostream& err) {
  fmt::print(err, "msitd-inspect: {}\n", Message(status));
  return InspectExit::kCannotOpen;
}

InspectExit Verify(StoreView& store, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<StoreCheckReport> report =
      CheckStore(store, [&out](const StoreProblem& problem) {
        fmt::print(out, "problem file={} offset={}: {}\n", problem.file,
                   problem.offset, problem.what);
      });
  if (!report.ok()) return Failed(report.status(), err);
  for (const StreamMismatch& stream : report->mismatches) {
    fmt::print(out,
               "stream run={} rank={} id={:#x} memory={} frames={} "
               "mismatching={}\n",
               stream.run, stream.rank, stream.stream_id, stream.memory,
               stream.frame_count, stream.mismatch_count);
  }
  fmt::print(out,
             "segments={} frames={} records={} payload_bytes={} shared={} "
             "entries={} recordless={} attachments={} unindexed_frames={} "
             "bit_rot={} "
             "producer_or_disk={} torn={} "
             "problems={}{}\n",
             report->segment_count, report->frame_count, report->record_count,
             report->payload_bytes, report->shared_count, report->entry_count,
             report->recordless_count, report->attachments.attachment_count,
             report->unindexed_frame_count, report->disk_count,
             report->producer_or_disk_count, report->torn_count,
             report->problem_count, store.is_live() ? " live" : "");
  return report->problem_count == 0 ? InspectExit::kOk : InspectExit::kProblems;
}

InspectExit Rebuild(const RebuildOptions& options, std::ostream& out,
                    std::ostream& err) {
  // Damage is reported below; the log would report it again for each copy.
  spdlog::set_level(spdlog::level::off);
  // As the daemon does for its files.
  ::umask(S_IRWXG | S_IRWXO);
  const absl::StatusOr<RebuildReport> report =
      RebuildIndex(options, Env::Posix(), [&out](const StoreProblem& problem) {
        fmt::print(out, "problem file={} offset={}: {}\n", problem.file,
                   problem.offset, problem.what);
      });
  if (!report.ok()) return Failed(report.status(), err);
  if (report->damage.empty()) fmt::print(out, "old index: sound\n");
  for (const std::string& damage : report->damage) {
    fmt::print(out, "old index: {}\n", damage);
  }
  for (const std::string& run : report->recovered_runs) {
    fmt::print(out, "run {}: only in segments\n", run);
  }
  for (const std::string& note : report->notes) {
    fmt::print(out, "note: {}\n", note);
  }
  const StoreCheckReport& check = report->check;
  fmt::print(
      out,
      "segments={} frames={} records={} payload_bytes={} entries={} "
      "runs={} runs_only_in_segments={} deleted_runs={} comparisons={} "
      "comparisons_lost={} attachments={} attachments_lost={} "
      "summaries_without_segment={} shared={} torn={} problems={}\n",
      check.segment_count, check.frame_count, check.record_count,
      check.payload_bytes, check.entry_count, report->kept_run_count,
      report->recovered_runs.size(), report->deleted_run_count,
      report->import.comparison_count, report->import.lost_comparison_count,
      report->import.attachment_count, report->import.lost_attachment_count,
      report->old_entries.kept_count, check.shared_count,
      report->torn_frame_count, check.problem_count);
  fmt::print(out, "new index: {}\n", report->index);
  if (!report->old_index.empty()) {
    fmt::print(out, "old index kept in: {}\n", report->old_index);
  }
  return report->is_complete() ? InspectExit::kOk : InspectExit::kProblems;
}

}  // namespace

InspectExit RunInspect(int argc, const char* const* argv, std::ostream& out,
                       std::ostream& err) {
  CLI::App app(
      "Looks into the store of msitd, also while a daemon has it open. Only "
      "rebuild writes to it.",
      "msitd-inspect");
  std::string directory = "/var/lib/msitd";
  app.add_option("--data-dir", directory, "Directory of the store")
      ->capture_default_str();
  app.set_version_flag("--version", "msitd-inspect " MSITD_VERSION);
  app.fallthrough();
  app.require_subcommand(1);
  const CLI::App* verify = app.add_subcommand(
      "verify",
      "Check every frame, every record, every reference of the index and every "
      "attachment");
  const CLI::App* dump =
      app.add_subcommand("dump", "Print segments, frames and records");
  const CLI::App* runs = app.add_subcommand("runs", "Print the runs");
  CLI::App* rebuild = app.add_subcommand(
      "rebuild",
      "Make a damaged index again from the segments, while the daemon is "
      "stopped");
  RebuildOptions rebuild_options;
  rebuild->add_option("--to", rebuild_options.target,
                      "Write the new index to this directory, which must not "
                      "exist or be empty, and leave the store as it is");
  rebuild->footer(
      "Keeps what can be read of the old index: runs with their labels and "
      "owners,\ncomparisons, attachments. Checks the new index against every "
      "frame, then puts it\nin place of the old one, which is kept as "
      "index.damaged-N.\n"
      "Example: systemctl stop msitd && sudo -u msitd msitd-inspect rebuild\n"
      "Exit codes: 0 everything can be read again, 1 rebuilt, but something is "
      "lost or may\nbe (lines that begin with note, run or problem say what), "
      "2 usage, 3 not rebuilt");
  app.footer(
      "Example: msitd-inspect verify --data-dir /var/lib/msitd\n"
      "Exit codes: 0 fine, 1 problems found, 2 usage, 3 the store cannot be "
      "opened or read");
  // CLI11 reports errors by exceptions, which are handled here.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? InspectExit::kOk
                                          : InspectExit::kUsage;
  }
  if (rebuild->parsed()) {
    rebuild_options.directory = directory;
    return Rebuild(rebuild_options, out, err);
  }
  absl::StatusOr<StoreView> store = StoreView::Open(directory, Env::Posix());
  if (!store.ok()) return Failed(store.status(), err);
  if (verify->parsed()) return Verify(*store, out, err);
  const LineSink sink = [&out](std::string_view line) {
    fmt::print(out, "{}\n", line);
  };
  if (dump->parsed()) {
    if (const absl::Status status = DumpStore(*store, sink); !status.ok()) {
      return Failed(status, err);
    }
  }
  if (runs->parsed()) DumpRuns(*store, sink);
  return InspectExit::kOk;
}

}  // namespace msitd::storage
