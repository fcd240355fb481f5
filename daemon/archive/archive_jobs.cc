// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/archive_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/archive/comparison_copier.h"
#include "daemon/archive/give_way.h"
#include "daemon/archive/run_restorer.h"
#include "daemon/log/log.h"
#include "protos/os/nice.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"
#include "storage/archive/archive_error.h"
#include "storage/archive/archive_pruner.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_writer.h"

namespace msitd::archive {
namespace {

using State = ArchiveJob::State;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool IsOver(const ArchiveJob& job) {
  return job.state == State::kDone || job.state == State::kFailed;
}

}  // namespace

ArchiveJobs::ArchiveJobs(const World& world, const Options& options)
    : world_(world),
      options_(options),
      waiting_shares_({.what = "jobs of archives that wait",
                       .capacity = kWaitingMax,
                       .reason = ErrorReason::kRequestsExhausted}),
      thread_(StartThread("archive", [this] { Loop(); })) {}

ArchiveJobs::~ArchiveJobs() { Stop(); }

void ArchiveJobs::Stop() {
  stops_ = true;
  world_.places.Stop();
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<ArchiveJob> ArchiveJobs::Archive(const std::string& run,
                                                const std::string& url,
                                                bool gives_up,
                                                const access::Caller& caller) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(url));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, world_.runs.GetRun(run));
  if (info.spec.restoring) return storage::RunRestoring(run);
  if (!info.sealed) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "run '{}' is active: only a sealed run is archived", run);
  }
  if (info.counters.unread_place_count > 0) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "{} places of the log cannot be read, so run '{}' may "
                      "lack tensors: see msitctl node status",
                      info.counters.unread_place_count, run);
  }
  ArchiveJob job;
  job.run = run;
  job.run_id = info.id;
  job.archived_run = run;
  job.url = store->url();
  job.gives_up = gives_up;
  job.caller = caller;
  return Add(std::move(job));
}

absl::StatusOr<ArchiveJob> ArchiveJobs::Restore(const std::string& url,
                                                const std::string& archived_run,
                                                const std::string& run,
                                                const access::Caller& caller) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(url));
  ArchiveJob job;
  job.kind = ArchiveJob::Kind::kRestore;
  job.run = run.empty() ? archived_run : run;
  job.archived_run = archived_run;
  job.url = store->url();
  job.caller = caller;
  // What an earlier restore has left is replaced.
  if (const auto there = world_.runs.GetRun(job.run);
      there.ok() && !there->spec.restoring) {
    return WithReason(MakeStatus(absl::StatusCode::kAlreadyExists,
                                 "there is a run '{}' already", job.run),
                      ErrorReason::kRunExists);
  }
  return Add(std::move(job));
}

absl::StatusOr<ArchiveJob> ArchiveJobs::Prune(const std::string& url,
                                              const std::string& archived_run,
                                              std::chrono::seconds age_min,
                                              const access::Caller& caller) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(url));
  ArchiveJob job;
  job.kind = ArchiveJob::Kind::kPrune;
  job.archived_run = archived_run;
  job.url = store->url();
  job.age_min = age_min;
  job.caller = caller;
  return Add(std::move(job));
}

absl::StatusOr<ArchiveJob> ArchiveJobs::Add(ArchiveJob job) {
  const MutexLock lock(mu_);
  for (const JobPtr& other : jobs_) {
    if (!IsOver(*other) && other->kind == job.kind && other->run == job.run &&
        other->run_id == job.run_id && other->url == job.url &&
        other->gives_up == job.gives_up && other->age_min == job.age_min &&
        other->archived_run == job.archived_run) {
      return *other;
    }
  }
  MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                         waiting_shares_.Acquire(job.caller));
  const int64_t job_id = ++last_id_;
  job.id = job_id;
  jobs_.push_front(std::make_shared<ArchiveJob>(std::move(job)));
  shares_[job_id] = std::move(share);
  waiting_.Push(jobs_.front()->caller.name, jobs_.front());
  NoteLocked(*jobs_.front());
  for (auto it = jobs_.end(); jobs_.size() > kRememberedMax;) {
    --it;
    if (IsOver(**it)) it = jobs_.erase(it);
  }
  changed_.NotifyAll();
  return *jobs_.front();
}

absl::StatusOr<ArchiveJob> ArchiveJobs::Get(int64_t id) {
  const MutexLock lock(mu_);
  for (const JobPtr& job : jobs_) {
    if (job->id == id) return *job;
  }
  return MakeStatus(absl::StatusCode::kNotFound, "there is no job {} any more",
                    id);
}

std::vector<ArchiveJob> ArchiveJobs::List() {
  const MutexLock lock(mu_);
  std::vector<ArchiveJob> out;
  for (const JobPtr& job : jobs_) out.push_back(*job);
  return out;
}

std::optional<RunArchive> ArchiveJobs::OfRun(const storage::RunInfo& run) {
  const MutexLock lock(mu_);
  if (const auto it = runs_.find(run.id); it != runs_.end()) return it->second;
  if (!IsWanted(run)) return std::nullopt;
  return RunArchive{run.spec.name, options_.archive_url};
}

ArchiveCounts ArchiveJobs::Counts() {
  // The thread may not get to the runs of the store for hours.
  const auto now = std::chrono::steady_clock::now();
  bool is_due = !options_.archive_url.empty();
  {
    const MutexLock lock(mu_);
    is_due &= visit_time_ == std::chrono::steady_clock::time_point() ||
              now - visit_time_ >= options_.look_interval;
    if (is_due) visit_time_ = now;
  }
  if (is_due) {
    (void)VisitRuns([this](const storage::RunInfo& run) {
      if (!IsWanted(run)) return;
      const MutexLock lock(mu_);
      runs_.try_emplace(run.id,
                        RunArchive{run.spec.name, options_.archive_url});
    });
  }
  const MutexLock lock(mu_);
  ArchiveCounts out;
  out.sent_bytes = sent_bytes_;
  uint64_t last_change = 0;
  for (const auto& [id, run] : runs_) {
    out.pending_count += run.state == State::kPending;
    out.running_count += run.state == State::kRunning;
    out.archived_count += run.state == State::kDone;
    out.failed_count += run.state == State::kFailed;
    out.incomplete_count +=
        run.state == State::kDone && run.unreadable_count > 0;
    if (run.last.ok() || run.change <= last_change) continue;
    last_change = run.change;
    out.error = fmt::format("run {}: {}", run.run, Message(run.last));
  }
  return out;
}

void ArchiveJobs::Note(const storage::RunInfo& run, RunArchive archive) {
  const MutexLock lock(mu_);
  archive.run = run.spec.name;
  archive.change = ++changes_;
  runs_[run.id] = std::move(archive);
}

void ArchiveJobs::NoteLocked(const ArchiveJob& job) {
  if (job.kind != ArchiveJob::Kind::kArchive) return;
  RunArchive& run = runs_[job.run_id];
  run.run = job.run;
  run.url = job.url;
  run.state = job.state;
  run.retry_time_ns = 0;
  if (IsOver(job)) run.last = job.status;
  if (job.state == State::kDone) {
    run.unreadable_count = job.unreadable.tensor_count;
  }
  run.change = ++changes_;
}

void ArchiveJobs::Loop() {
  (void)RaiseNice(options_.nice);
  while (!stops_) {
    if (const JobPtr job = Next(); job != nullptr) {
      Do(*job);
      const MutexLock lock(mu_);
      waiting_.Finish(job->caller.name);
    } else if (!stops_) {
      LookForRuns();
    }
  }
}

ArchiveJobs::JobPtr ArchiveJobs::Next() {
  const auto deadline =
      std::chrono::steady_clock::now() + options_.look_interval;
  const MutexLock lock(mu_);
  while (!stops_ && waiting_.empty()) {
    // Stop does not hold the lock, so a wait has an end.
    if (!changed_.WaitUntil(
            mu_, std::min(deadline, std::chrono::steady_clock::now() +
                                        std::chrono::milliseconds(200))) &&
        std::chrono::steady_clock::now() >= deadline) {
      return nullptr;
    }
  }
  if (stops_) return nullptr;
  JobPtr job = *waiting_.Pop();
  shares_.erase(job->id);
  job->state = State::kRunning;
  NoteLocked(*job);
  return job;
}

void ArchiveJobs::Do(ArchiveJob& job) {
  absl::Status status;
  std::string_view verb;
  switch (job.kind) {
    case ArchiveJob::Kind::kArchive:
      verb = "archive";
      status = DoArchive(job);
      break;
    case ArchiveJob::Kind::kRestore:
      verb = "restore";
      status = DoRestore(job);
      break;
    case ArchiveJob::Kind::kPrune:
      verb = "prune";
      status = DoPrune(job);
      break;
  }
  if (status.ok()) {
    log::Get("archive")->info(
        "{}d run={} url={} records={} sent_bytes={} unreadable={}", verb,
        job.run, job.url, job.record_count, job.sent_bytes,
        job.unreadable.tensor_count);
  } else {
    log::Get("archive")->warn("failed to {} run={} url={} error='{}'", verb,
                              job.run, job.url, Message(status));
  }
  int64_t retry_time_ns = 0;
  if (job.is_automatic) {
    retry_time_ns = status.ok() ? PlanNext(job) : PlanRetry(job.run_id, status);
  }
  const MutexLock lock(mu_);
  job.status = status;
  job.state = status.ok() ? State::kDone : State::kFailed;
  sent_bytes_ += job.sent_bytes;
  NoteLocked(job);
  if (retry_time_ns > 0) runs_[job.run_id].retry_time_ns = retry_time_ns;
}

int64_t ArchiveJobs::PlanRetry(storage::RunId run, const absl::Status& status) {
  if (storage::IsPermanentArchiveError(status)) {
    settled_.insert(run);
    retries_.erase(run);
    return 0;
  }
  retries_[run].missing_bytes.reset();
  return BackOff(run);
}

int64_t ArchiveJobs::PlanNext(const ArchiveJob& job) {
  if (job.unreadable.missing_count == 0) {
    settled_.insert(job.run_id);
    retries_.erase(job.run_id);
    return 0;
  }
  const auto run = world_.runs.GetRun(job.run);
  retries_[job.run_id].missing_bytes =
      run.ok() ? run->counters.missing_bytes : 0;
  return BackOff(job.run_id);
}

bool ArchiveJobs::MustWait(const storage::RunInfo& run) const {
  const auto it = retries_.find(run.id);
  if (it == retries_.end()) return false;
  const Retry& retry = it->second;
  // Segments that return are archived at once.
  if (retry.missing_bytes.has_value() &&
      run.counters.missing_bytes < *retry.missing_bytes) {
    return false;
  }
  return std::chrono::steady_clock::now() < retry.time;
}

int64_t ArchiveJobs::BackOff(storage::RunId run) {
  Retry& retry = retries_[run];
  std::chrono::milliseconds wait = options_.retry_interval;
  for (int i = 0; i < retry.failure_count; ++i) {
    wait = std::min(2 * wait, options_.retry_interval_max);
  }
  ++retry.failure_count;
  retry.time = std::chrono::steady_clock::now() + wait;
  return NowNs() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
}

absl::Status ArchiveJobs::Report(ArchiveJob& job, uint64_t record_count,
                                 uint64_t record_total) {
  if (stops_) {
    return WithReason(
        MakeStatus(absl::StatusCode::kUnavailable, "the daemon stops"),
        ErrorReason::kNotServing);
  }
  const MutexLock lock(mu_);
  job.record_count = record_count;
  job.record_total = record_total;
  return absl::OkStatus();
}

absl::Status ArchiveJobs::CheckIsSame(const ArchiveJob& job) {
  const auto run = world_.runs.GetRun(job.run);
  MSITD_RETURN_IF_ERROR(run.status());
  if (run->id == job.run_id) return absl::OkStatus();
  return WithReason(
      MakeStatus(absl::StatusCode::kAborted,
                 "run '{}' was deleted since this was asked for, and another "
                 "run has its name now",
                 job.run),
      ErrorReason::kRunReplaced);
}

absl::Status ArchiveJobs::DoArchive(ArchiveJob& job) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(job.url));
  MSITD_RETURN_IF_ERROR(CheckIsSame(job));
  if (job.is_of_comparisons) return ArchiveComparisonsOf(job, *store);
  MSITD_ASSIGN_OR_RETURN(const auto run, world_.readers.OpenRun(job.run));
  GiveWay way([this] { return world_.pipeline.Stats().in_flight_bytes > 0; },
              options_.give_way);
  std::pair<uint64_t, uint64_t> step;
  MSITD_ASSIGN_OR_RETURN(
      const storage::ArchiveManifest manifest,
      storage::WriteArchive(
          {.run = run.get(),
           .attachments = &world_.attachments,
           .store = store.get(),
           .now_ns = NowNs()},
          [&](const storage::ArchiveProgress& progress) {
            // Attachments are found by the name of the run.
            MSITD_RETURN_IF_ERROR(CheckIsSame(job));
            const auto report = [&] {
              return Report(job, progress.entry_count, progress.entry_total);
            };
            MSITD_RETURN_IF_ERROR(report());
            {
              const MutexLock lock(mu_);
              job.sent_bytes = progress.sent_bytes;
              job.verified_bytes = progress.verified_bytes;
            }
            const std::pair now(progress.entry_count, progress.verified_bytes);
            if (now == step) return absl::OkStatus();
            step = now;
            return way.Rest(report);
          }));
  {
    const MutexLock lock(mu_);
    job.unreadable = manifest.unreadable;
  }
  MSITD_RETURN_IF_ERROR(ArchiveComparisonsOf(job, *store));
  return job.gives_up ? GiveUp(job, manifest, *store) : absl::OkStatus();
}

absl::Status ArchiveJobs::GiveUp(ArchiveJob& job,
                                 const storage::ArchiveManifest& manifest,
                                 storage::ObjectStore& store) {
  const auto refuse = [](std::string_view why) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "the run is archived, but its bytes are not given up: {}",
                      why);
  };
  if (!manifest.unreadable.empty()) {
    return refuse(fmt::format(
        "{} tensors and {} attachments could not be read, so the archive lacks "
        "them",
        manifest.unreadable.tensor_count,
        manifest.unreadable.attachment_count));
  }
  if (!exclusive_urls_.contains(job.url)) {
    MSITD_ASSIGN_OR_RETURN(const bool is_exclusive,
                           storage::HasExclusiveWrites(store));
    if (!is_exclusive) {
      return refuse(
          "the server ignores If-None-Match, so another daemon could replace "
          "the archived run while it writes one of the same name");
    }
    exclusive_urls_.insert(job.url);
  }
  // From here on the archive has the only copy.
  MSITD_RETURN_IF_ERROR(
      storage::CheckArchivedObjects(store, manifest, [&]() -> absl::Status {
        return Report(job, job.record_count, job.record_total);
      }));
  // Retention gives up everything with a limit of one byte.
  return world_.pipeline.runs().ChangeRun(
      job.run, job.caller, [&]() -> absl::Status {
        MSITD_RETURN_IF_ERROR(CheckIsSame(job));
        MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run,
                               world_.runs.GetRun(job.run));
        storage::RunRetention retention = run.retention;
        retention.pinned = false;
        retention.limits.bytes_max = 1;
        return world_.runs.SetRetention(job.run, retention).status();
      });
}

absl::Status ArchiveJobs::DoPrune(ArchiveJob& job) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(job.url));
  const int64_t now_s = NowNs() / 1'000'000'000;
  MSITD_ASSIGN_OR_RETURN(
      storage::PrunedObjects pruned,
      storage::PruneArchive({.store = store.get(),
                             .run = job.archived_run,
                             .modified_before_s = now_s - job.age_min.count()},
                            [&] { return Report(job, 0, 0); }));
  const MutexLock lock(mu_);
  job.pruned_count = pruned.object_count;
  job.pruned_bytes = pruned.bytes;
  job.differences = std::move(pruned.problems);
  return absl::OkStatus();
}

absl::Status ArchiveJobs::ArchiveComparisonsOf(ArchiveJob& job,
                                               storage::ObjectStore& store) {
  const absl::StatusOr<CopiedComparisons> copied = ArchiveComparisons(
      world_.comparisons, store, job.run,
      [&] { return Report(job, job.record_count, job.record_total); });
  if (!copied.ok()) return Annotate(copied.status(), "its comparisons");
  const MutexLock lock(mu_);
  job.comparison_count = copied->count;
  job.left_comparison_count = copied->left_count;
  job.sent_bytes += copied->sent_bytes;
  return absl::OkStatus();
}

absl::Status ArchiveJobs::DoRestore(ArchiveJob& job) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(job.url));
  MSITD_ASSIGN_OR_RETURN(RestoredRun restored,
                         RestoreRun({.store = store,
                                     .archived_run = job.archived_run,
                                     .run = job.run,
                                     .caller = job.caller,
                                     .runs = world_.runs,
                                     .readers = world_.readers,
                                     .attachments = world_.attachments,
                                     .comparisons = world_.comparisons,
                                     .pipeline = world_.pipeline},
                                    [&](uint64_t count, uint64_t total) {
                                      return Report(job, count, total);
                                    }));
  // It is in the archive that it comes from.
  const auto made = world_.runs.GetRun(job.run);
  if (made.ok() && job.url == options_.archive_url &&
      job.run == job.archived_run) {
    settled_.insert(made->id);
    Note(*made, {.url = job.url,
                 .state = State::kDone,
                 .unreadable_count = restored.unreadable.tensor_count});
  }
  const MutexLock lock(mu_);
  job.differences = std::move(restored.differences);
  job.unreadable = std::move(restored.unreadable);
  job.comparison_count = restored.comparison_count;
  job.left_comparison_count = restored.left_comparison_count;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<storage::ArchiveManifest>>
ArchiveJobs::FindArchived(storage::ObjectStore& store,
                          const storage::RunInfo& run) {
  auto manifest = storage::ReadManifest(store, run.spec.name);
  if (HasReason(manifest.status(), ErrorReason::kRunNotFound)) {
    return std::nullopt;
  }
  if (!manifest.ok()) return manifest.status();
  if (manifest->run.id != run.id ||
      manifest->run.create_time_ns != run.create_time_ns) {
    return WithReason(
        MakeStatus(absl::StatusCode::kAlreadyExists, "{} has another run '{}'",
                   store.url(), run.spec.name),
        ErrorReason::kRunExists);
  }
  return *std::move(manifest);
}

}  // namespace msitd::archive
