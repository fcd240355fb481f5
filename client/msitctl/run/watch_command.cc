// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/print/progress.h"
#include "client/ask/query/endpoint.h"
#include "client/ask/query/exit_code.h"
#include "client/ask/text/text.h"
#include "client/foreign/fill/run_target.h"
#include "client/foreign/watch/watcher.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/run/import_place.h"
#include "client/msitctl/run/import_result.pb.h"
#include "client/msitctl/run/run_keep.h"
#include "client/msitctl/verb/pages.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

using Clock = std::chrono::steady_clock;

// The time after the first signal in which complete files are sent to the
// daemon.
constexpr std::chrono::seconds kDrainTime{30};

constexpr size_t kShownIncompleteMax = 20;

struct WatchFlags : ImportPlaceFlags {
  std::string folder;
  KeepFlags keep;
  std::string until_idle;
  bool min_max = false;
  bool deletes = false;
  bool seal = false;
  bool poll = false;
};

// The run that a watch fills. The first signal ends the watch, but not the job,
// which then gets `kDrainTime`.
class DrainedTarget final : public fill::ImportTarget {
 public:
  DrainedTarget(Invocation& invocation, fill::RunTarget& target)
      : interrupts_(invocation.interrupts()), target_(target) {}

  absl::StatusOr<std::unique_ptr<libmsit::Client>> OpenRank(
      int32_t rank, libmsit::InterruptCheck interrupt) override {
    return target_.OpenRank(rank, interrupt);
  }
  absl::Status Attach(const std::string& name, const std::string& media_type,
                      std::string_view bytes) override {
    const absl::Status attached = target_.Attach(name, media_type, bytes);
    // The signal that ends the watch has cancelled the call.
    if (!absl::IsCancelled(attached) || is_interrupted()) return attached;
    return target_.Attach(name, media_type, bytes);
  }
  bool is_interrupted() override {
    if (!interrupts_.interrupted()) return false;
    if (!stop_time_) stop_time_ = Clock::now();
    return Clock::now() - *stop_time_ >= kDrainTime;
  }
  void OnProgress(const fill::ImportCounts& counts,
                  int64_t problem_count) override {
    target_.OnProgress(counts, problem_count);
  }

 private:
  ask::Interrupts& interrupts_;
  fill::RunTarget& target_;
  std::optional<Clock::time_point> stop_time_;
};

// Returns true if the daemon cannot be reached or does not answer.
bool IsAbsence(const ask::Outcome& outcome) {
  return outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::UNAVAILABLE) ||
         outcome.exit_code ==
             ask::ExitCodeOf(grpc::StatusCode::DEADLINE_EXCEEDED);
}

// A daemon that cannot be reached at the beginning may never be reachable.
ask::Outcome FindDaemon(Invocation& invocation, const std::string& run) {
  v1::Run found;
  ask::Outcome asked =
      invocation.AskByName(&v1::RunService::Stub::GetRun, run, found);
  return IsAbsence(asked) ? asked : ask::Outcome();
}

std::string LagText(const watch::Lag& lag) {
  const std::chrono::duration<double> p99 = lag.Quantile(0.99);
  return fmt::format("lag p99 {:.2f} s", p99.count());
}

class Host final : public watch::WatchHost {
 public:
  Host(Invocation& invocation, const WatchFlags& flags)
      : invocation_(invocation),
        flags_(flags),
        keep_(invocation, flags.keep),
        line_(invocation.options().progress,
              invocation.options().terminal.stderr_width),
        import_target_(
            invocation, flags.run, JobOptions(flags, invocation).patience,
            [this](const fill::ImportCounts&, int64_t) { OnProgress(); }),
        target_(invocation, import_target_) {}

  // Loads the function of --keep. Call it before the watch.
  ask::Outcome LoadFunction() {
    return keep_.LoadFunction([this] { return target_.is_interrupted(); });
  }
  fill::TensorDeriver* deriver() { return keep_.deriver(); }

  // Shows the work of the watcher in the progress.
  void Follow(const watch::Watcher& watcher) { watcher_ = &watcher; }

  // Files of these kinds do not specify their order, and their times are only
  // known for files that exist at the same time.
  static bool HasKnownOrder(trees::TreeKind kind) {
    return kind != trees::TreeKind::kFiles && kind != trees::TreeKind::kMsit;
  }

  absl::Status Begin(trees::TreeKind kind, int32_t world_size,
                     const std::vector<int32_t>& ranks) override {
    const std::string source(trees::TreeKindName(kind));
    if (!flags_.rank && !ranks.empty()) {
      world_size = std::max(world_size, ranks.back() + 1);
    }
    outcome_ = import_target_.Prepare(
        {.source = source,
         .world_size = WorldSizeOf(flags_, world_size),
         .is_world_size_said = flags_.world_size.has_value(),
         .has_known_order = HasKnownOrder(kind)});
    ledger_.emplace(source);
    ledger_->StayCurrent();
    if (outcome_.ok()) outcome_ = CheckOpen();
    if (outcome_.ok()) outcome_ = keep_.SetPolicy(flags_.run, flags_.deletes);
    if (outcome_.ok()) outcome_ = import_target_.LoadLedger(source, *ledger_);
    if (outcome_.ok()) {
      outcome_ = keep_.SetFunction(import_target_.run(), target_);
    }
    if (outcome_.ok()) return absl::OkStatus();
    return IsAbsence(outcome_) ? absl::UnavailableError(outcome_.error)
                               : absl::AbortedError(outcome_.error);
  }

  fill::ImportTarget& target() override { return target_; }
  fill::ImportLedger& ledger() override { return *ledger_; }
  int32_t world_size() override { return import_target_.run().world_size(); }
  bool holds_ledger() override {
    const v1::RunCounters& counters = import_target_.run().counters();
    // An earlier policy may have excluded something.
    return counters.conflict_count() == 0 &&
           counters.expired_size_bytes() == 0 &&
           keep_.policy_revision() == (keep_.is_full() ? 0 : 1);
  }
  absl::StatusOr<bool> HoldsAll(int64_t conflict_count) override {
    MSITD_ASSIGN_OR_RETURN(const fill::RunTarget::Standing standing,
                           import_target_.ReadStanding());
    const int64_t former = import_target_.run().counters().conflict_count();
    return standing.policy_revision == keep_.policy_revision() &&
           standing.conflict_count <= former + conflict_count;
  }
  bool is_stopped() override { return invocation_.interrupts().interrupted(); }

  void OnProgress() override {
    if (watcher_ == nullptr) return;
    if (watcher_->job() == nullptr) {
      line_.Show("waiting for files");
      return;
    }
    const fill::ImportCounts& counts = watcher_->job()->counts();
    const watch::WatchCounts watched = watcher_->counts();
    line_.Show(fmt::format(
        "{} files, {}; {}, {} waiting, {} incomplete, {} problems",
        counts.file_count, ask::HumanSize(counts.size_bytes),
        LagText(watcher_->lag()), watched.waiting_count,
        watched.incomplete_count, watcher_->job()->problems().count()));
  }

  void Note(const std::string& text) override {
    line_.Clear();
    fmt::print(stderr, "msitctl: note: {}\n", ask::Printable(text));
  }

  // The reason why Begin failed.
  const ask::Outcome& outcome() const { return outcome_; }
  fill::RunTarget& import_target() { return import_target_; }
  ask::Progress& line() { return line_; }

 private:
  ask::Outcome CheckOpen() {
    if (import_target_.run().state() != v1::Run::SEALED) return {};
    return ask::UsageError(
        fmt::format("run {} is sealed: use another run", flags_.run));
  }

  Invocation& invocation_;
  const WatchFlags& flags_;
  RunKeep keep_;
  ask::Progress line_;
  const watch::Watcher* watcher_ = nullptr;
  fill::RunTarget import_target_;
  DrainedTarget target_;
  std::optional<fill::ImportLedger> ledger_;
  ask::Outcome outcome_;
};

double SecondsOf(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

void SetImported(const WatchFlags& flags, const watch::Watcher& watcher,
                 ImportResult& result) {
  result.set_run(flags.run);
  if (watcher.job() == nullptr) return;
  result.set_source(std::string(trees::TreeKindName(watcher.kind())));
  SetCounts(*watcher.job(), result);
}

WatchResult ResultOf(const WatchFlags& flags, const watch::Watcher& watcher,
                     bool is_sealed) {
  const watch::WatchCounts counts = watcher.counts();
  const watch::Lag& lag = watcher.lag();
  WatchResult result;
  SetImported(flags, watcher, *result.mutable_imported());
  result.mutable_imported()->set_sealed(is_sealed);
  result.set_incomplete_count(counts.incomplete_count);
  result.set_waiting_count(counts.waiting_count);
  for (const watch::IncompleteFile& file : watcher.incomplete()) {
    ImportProblem& row = *result.add_incomplete();
    row.set_file(ask::Printable(file.path));
    row.set_reason(ask::Printable(file.reason));
  }
  result.set_late_count(counts.late_count);
  result.set_lost_event_count(counts.lost_count);
  result.set_polled_folder_count(counts.polled_folder_count);
  result.set_min_max_count(watcher.sources().min_max_count());
  result.set_deleted_count(watcher.sources().deleted_count());
  result.set_kept_count(watcher.sources().kept_count() +
                        watcher.sources().waiting_count());
  result.set_lag_p50_s(SecondsOf(lag.Quantile(0.5)));
  result.set_lag_p99_s(SecondsOf(lag.Quantile(0.99)));
  result.set_lag_max_s(SecondsOf(lag.max()));
  result.set_lag_file_count(lag.count());
  return result;
}

std::string ClosingLine(const WatchResult& result) {
  const ImportResult& imported = result.imported();
  std::string line = fmt::format(
      "watched {} files into {}: {} tensors, {} values, {}; {} incomplete, {} "
      "problems",
      imported.file_count(), ask::Printable(imported.run()),
      imported.tensor_count(), imported.value_count(),
      ask::HumanSize(imported.size_bytes()), result.incomplete_count(),
      imported.problem_count());
  const auto add = [&line](int64_t count, const char* what) {
    if (count != 0) line += fmt::format(", {} {}", count, what);
  };
  add(result.waiting_count(), "not imported");
  add(imported.conflict_count(), "conflicts");
  add(imported.object_count(), "objects not imported");
  line += KeptText(imported);
  add(result.late_count(), "late");
  add(result.polled_folder_count(), "folders polled");
  add(result.min_max_count(), "_min_max files");
  add(result.deleted_count(), "deleted");
  add(result.kept_count(), "kept");
  if (result.lag_file_count() > 0) {
    line +=
        fmt::format("; lag p50 {:.2f} s, p99 {:.2f} s, max {:.2f} s",
                    result.lag_p50_s(), result.lag_p99_s(), result.lag_max_s());
  }
  return line + "\n";
}

// Prints the result, also if the watch ended early.
ask::Outcome Tell(Invocation& invocation, const WatchFlags& flags,
                  const watch::Watcher& watcher, bool is_sealed) {
  const auto& incomplete = watcher.incomplete();
  for (size_t i = 0; i < std::min(incomplete.size(), kShownIncompleteMax);
       ++i) {
    fmt::print(stderr, "{}: incomplete: {}\n",
               ask::Printable(incomplete[i].path),
               ask::Printable(incomplete[i].reason));
  }
  if (watcher.job() != nullptr) TellProblems(watcher.job()->problems());
  const WatchResult result = ResultOf(flags, watcher, is_sealed);
  if (invocation.is_table()) PrintObjects(result.imported());
  TellConflicts(result.imported());
  if (!invocation.is_table()) return PrintOne(invocation, result, "imported");
  invocation.out().Write(ClosingLine(result));
  return {};
}

ask::Outcome End(Invocation& invocation, const WatchFlags& flags, Host& host,
                 const watch::Watcher& watcher, const absl::Status& status) {
  host.line().Clear();
  MSITCTL_RETURN_IF_FAILED(host.outcome());
  const bool is_partial = watcher.counts().incomplete_count != 0 ||
                          (watcher.job() != nullptr &&
                           (watcher.job()->problems().count() != 0 ||
                            watcher.job()->counts().conflict_count != 0));
  const bool may_grow =
      watcher.counts().incomplete_count != 0 ||
      !watcher.sources().failure().ok() ||
      (watcher.job() != nullptr && watcher.job()->problems().may_pass());
  ask::Outcome sealed;
  if (status.ok() && flags.seal && !may_grow && watcher.job() != nullptr) {
    sealed = host.import_target().Seal();
  }
  const bool is_sealed = host.import_target().run().state() == v1::Run::SEALED;
  const ask::Outcome told = Tell(invocation, flags, watcher, is_sealed);
  if (absl::IsInvalidArgument(status)) return ask::UsageError(Message(status));
  MSITCTL_RETURN_IF_FAILED(OutcomeOfImport(status));
  MSITCTL_RETURN_IF_FAILED(sealed);
  MSITCTL_RETURN_IF_FAILED(told);
  if (flags.seal && may_grow) {
    fmt::print(stderr, "run {} stays open: some files are incomplete\n",
               ask::Printable(flags.run));
  }
  return {is_partial ? ask::kExitPartial : ask::kExitOk, ""};
}

ask::Outcome Watch(Invocation& invocation, const WatchFlags& flags) {
  if (flags.run.empty())
    return ask::UsageError("--run is required: the run to import into");
  watch::WatchOptions options;
  MSITCTL_RETURN_IF_FAILED(ReadSource(flags, options.kind));
  MSITCTL_RETURN_IF_FAILED(
      ReadNamePattern(flags, options.kind, options.name_pattern));
  options.import = JobOptions(flags, invocation);
  options.import.keeps_streams = true;
  options.mapping_folder = flags.mapping_folder;
  options.polls = flags.poll;
  options.sources = {.writes_min_max = flags.min_max, .deletes = flags.deletes};
  if (!flags.until_idle.empty()) {
    const auto idle = ask::ParseDuration(flags.until_idle);
    if (!idle.ok()) {
      return ask::UsageError(
          fmt::format("--until-idle: {}", Message(idle.status())));
    }
    options.until_idle = *idle;
  }
  MSITCTL_RETURN_IF_FAILED(FindDaemon(invocation, flags.run));
  // A signal ends the watch in an orderly manner.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  auto events = watch::InotifyEvents::Open(flags.folder);
  if (!events.ok()) return ask::LocalError(Message(events.status()));
  Host host(invocation, flags);
  MSITCTL_RETURN_IF_FAILED(host.LoadFunction());
  options.import.deriver = host.deriver();
  auto watcher =
      watch::Watcher::Open(flags.folder, std::move(options), **events, host);
  if (!watcher.ok()) return ask::LocalError(Message(watcher.status()));
  host.Follow(**watcher);
  const absl::Status status = (*watcher)->Run();
  return End(invocation, flags, host, **watcher, status);
}

void AddWatchFlags(CLI::App& verb, WatchFlags& flags) {
  verb.add_option("DIR", flags.folder, "Folder to watch, with its subfolders")
      ->required()
      ->type_name("DIR");
  AddImportPlaceFlags(verb, flags);
  AddKeepFlags(verb, flags.keep);
  verb.add_flag(
      "--min-max", flags.min_max,
      "Write a _min_max file next to each dump: [min, max] of its tensors");
  verb.add_flag("--delete", flags.deletes,
                "Remove each file after it is imported and, with --min-max, "
                "its _min_max file is written. Not for --source atb, whose "
                "files refer to the bytes of one another");
  verb.add_option("--until-idle", flags.until_idle,
                  "Exit when nothing has changed for this long")
      ->type_name("TIME");
  verb.add_flag("--seal", flags.seal,
                "Seal the run at the end if all files are complete");
  verb.add_flag("--poll", flags.poll,
                "List folders every second. Use it where the system does not "
                "report changes, as on network drives");
}

}  // namespace

void AddWatchCommand(CommandLine& line) {
  auto flags = std::make_shared<WatchFlags>();
  CLI::App& verb = line.AddVerb(
      line.app(),
      {.name = "watch",
       .summary = "Import files of other tools into a run while they are "
                  "written, until Ctrl-C.",
       .examples = "msitctl watch /dump/ge --run npu\n"
                   "msitctl watch /dump --run npu --keep summary "
                   "--until-idle 30s --seal\n"
                   "msitctl watch /dump --run npu --keep norms.py:norms "
                   "--delete\n"
                   "msitctl watch /dump --run own --name-pattern "
                   "'rank{rank}_step{token}_{op}'",
       .rpcs = "RunService.CreateRun, RunService.GetRun, RunService.SealRun, "
               "AttachmentService.WriteAttachment, "
               "AttachmentService.ReadAttachment, IngestService.WriteChunks, "
               "CaptureService.GetCapturePolicy, "
               "CaptureService.SetCapturePolicy"},
      [flags](Invocation& invocation) { return Watch(invocation, *flags); });
  AddWatchFlags(verb, *flags);
}

}  // namespace msitd::msitctl
