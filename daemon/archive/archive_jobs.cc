// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/archive_jobs.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "daemon/archive/comparison_copier.h"
#include "daemon/archive/give_way.h"
#include "daemon/archive/run_restorer.h"
#include "daemon/log/log.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_writer.h"

namespace msitd::archive {
namespace {

constexpr size_t kRunsAtOnce = 256;

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
  job.is_restore = true;
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

absl::StatusOr<ArchiveJob> ArchiveJobs::Add(ArchiveJob job) {
  const MutexLock lock(mu_);
  for (const JobPtr& other : jobs_) {
    if (!IsOver(*other) && other->is_restore == job.is_restore &&
        other->run == job.run && other->url == job.url &&
        other->gives_up == job.gives_up &&
        other->archived_run == job.archived_run) {
      return *other;
    }
  }
  if (waiting_.size() >= kWaitingMax) {
    return WithReason(
        MakeStatus(absl::StatusCode::kResourceExhausted,
                   "{} runs wait to be archived or restored", kWaitingMax),
        ErrorReason::kRequestsExhausted);
  }
  job.id = ++last_id_;
  jobs_.push_front(std::make_shared<ArchiveJob>(std::move(job)));
  waiting_.push_back(jobs_.front());
  NoteLocked(*jobs_.front());
  for (auto it = jobs_.end(); jobs_.size() > kRememberedMax;) {
    --it;
    if (IsOver(**it)) it = jobs_.erase(it);
  }
  changed_.NotifyAll();
  return *waiting_.back();
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
  const MutexLock lock(mu_);
  ArchiveCounts out;
  out.sent_bytes = sent_bytes_;
  uint64_t last_change = 0;
  for (const auto& [id, run] : runs_) {
    out.pending_count += run.state == State::kPending;
    out.running_count += run.state == State::kRunning;
    out.archived_count += run.state == State::kDone;
    out.failed_count += run.state == State::kFailed;
    if (run.last.ok() || run.change <= last_change) continue;
    last_change = run.change;
    out.error = fmt::format("run {}: {}", run.run, Message(run.last));
  }
  return out;
}

void ArchiveJobs::Note(const storage::RunInfo& run, const std::string& url,
                       State state, const absl::Status& status) {
  const MutexLock lock(mu_);
  runs_[run.id] = {run.spec.name, url, state, status, ++changes_};
}

void ArchiveJobs::NoteLocked(const ArchiveJob& job) {
  if (job.is_restore) return;
  RunArchive& run = runs_[job.run_id];
  run.run = job.run;
  run.url = job.url;
  run.state = job.state;
  if (IsOver(job)) run.last = job.status;
  run.change = ++changes_;
}

void ArchiveJobs::Loop() {
  // A thread has a niceness of its own; those that it makes inherit it.
  if (::getpriority(PRIO_PROCESS, 0) < options_.nice) {
    (void)::setpriority(PRIO_PROCESS, 0, options_.nice);
  }
  while (!stops_) {
    if (const JobPtr job = Next(); job != nullptr) {
      Do(*job);
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
  JobPtr job = waiting_.front();
  waiting_.pop_front();
  job->state = State::kRunning;
  NoteLocked(*job);
  return job;
}

void ArchiveJobs::Do(ArchiveJob& job) {
  const absl::Status status = job.is_restore ? DoRestore(job) : DoArchive(job);
  if (status.ok() && job.is_automatic) archived_.insert(job.run_id);
  if (status.ok()) {
    log::Get("archive")->info("{} run={} url={} records={} sent_bytes={}",
                              job.is_restore ? "restored" : "archived", job.run,
                              job.url, job.record_count, job.sent_bytes);
  } else {
    log::Get("archive")->warn("failed to {} run={} url={} error='{}'",
                              job.is_restore ? "restore" : "archive", job.run,
                              job.url, Message(status));
  }
  const MutexLock lock(mu_);
  job.status = status;
  job.state = status.ok() ? State::kDone : State::kFailed;
  sent_bytes_ += job.sent_bytes;
  NoteLocked(job);
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

absl::Status ArchiveJobs::DoArchive(ArchiveJob& job) {
  MSITD_ASSIGN_OR_RETURN(const auto store, world_.places.Open(job.url));
  if (job.is_of_comparisons) return ArchiveComparisonsOf(job, *store);
  MSITD_ASSIGN_OR_RETURN(const auto run, world_.readers.OpenRun(job.run));
  GiveWay way([this] { return world_.pipeline.Stats().in_flight_bytes > 0; },
              options_.give_way);
  uint64_t step = 0;
  MSITD_RETURN_IF_ERROR(
      storage::WriteArchive(
          {.run = run.get(),
           .attachments = &world_.attachments,
           .store = store.get(),
           .now_ns = NowNs()},
          [&](const storage::ArchiveProgress& progress) {
            MSITD_RETURN_IF_ERROR(
                Report(job, progress.entry_count, progress.entry_total));
            {
              const MutexLock lock(mu_);
              job.sent_bytes = progress.sent_bytes;
              job.verified_bytes = progress.verified_bytes;
            }
            if (progress.entry_count == step) {
              return absl::OkStatus();
            }
            step = progress.entry_count;
            return way.Rest([&] {
              return Report(job, progress.entry_count, progress.entry_total);
            });
          })
          .status());
  MSITD_RETURN_IF_ERROR(ArchiveComparisonsOf(job, *store));
  if (!job.gives_up) return absl::OkStatus();
  // A limit of one byte: retention gives up all that is given up by tokens.
  return world_.pipeline
      .ChangeRetention(job.run, job.caller,
                       [](storage::RunRetention& retention) {
                         retention.pinned = false;
                         retention.limits.bytes_max = 1;
                         return absl::OkStatus();
                       })
      .status();
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
    archived_.insert(made->id);
    Note(*made, job.url, State::kDone, absl::OkStatus());
  }
  const MutexLock lock(mu_);
  job.differences = std::move(restored.differences);
  job.comparison_count = restored.comparison_count;
  job.left_comparison_count = restored.left_comparison_count;
  return absl::OkStatus();
}

absl::StatusOr<bool> ArchiveJobs::IsArchived(storage::ObjectStore& store,
                                             const storage::RunInfo& run) {
  const auto manifest = storage::ReadManifest(store, run.spec.name);
  if (HasReason(manifest.status(), ErrorReason::kRunNotFound)) return false;
  if (!manifest.ok()) return manifest.status();
  if (manifest->run.id != run.id ||
      manifest->run.create_time_ns != run.create_time_ns) {
    return WithReason(
        MakeStatus(absl::StatusCode::kAlreadyExists, "{} has another run '{}'",
                   store.url(), run.spec.name),
        ErrorReason::kRunExists);
  }
  return true;
}

void ArchiveJobs::LookForRuns() {
  if (options_.archive_url.empty()) {
    const MutexLock lock(mu_);
    if (runs_.empty()) return;
  }
  std::set<storage::RunId> there;
  std::vector<storage::RunInfo> wanted;
  std::string after;
  const auto now = std::chrono::steady_clock::now();
  while (true) {
    const auto runs = world_.runs.ListRuns(after, kRunsAtOnce);
    if (!runs.ok()) return;
    if (runs->empty()) break;
    after = runs->back().spec.name;
    for (const storage::RunInfo& run : *runs) {
      there.insert(run.id);
      if (!IsWanted(run) || archived_.contains(run.id)) continue;
      {
        const MutexLock lock(mu_);
        runs_.try_emplace(run.id,
                          RunArchive{run.spec.name, options_.archive_url});
      }
      const auto retry = retries_.find(run.id);
      if (retry != retries_.end() && now < retry->second) continue;
      if (wanted.size() < kWaitingMax) wanted.push_back(run);
    }
  }
  const auto has_gone = [&](const auto& one) {
    return !there.contains(one.first);
  };
  std::erase_if(archived_,
                [&](storage::RunId id) { return !there.contains(id); });
  std::erase_if(retries_, has_gone);
  {
    const MutexLock lock(mu_);
    std::erase_if(runs_, has_gone);
  }
  for (const storage::RunInfo& run : wanted) {
    if (stops_ || !LookFor(run)) return;
  }
}

bool ArchiveJobs::LookFor(const storage::RunInfo& run) {
  const auto store = world_.places.Open(options_.archive_url);
  if (!store.ok()) return false;
  // What is being archived is looked at again after a while.
  retries_.insert_or_assign(
      run.id, std::chrono::steady_clock::now() + options_.retry_interval);
  const absl::StatusOr<bool> is_there = IsArchived(**store, run);
  if (!is_there.ok()) {
    log::Get("archive")->warn("not archived run={} url={} error='{}'",
                              run.spec.name, options_.archive_url,
                              Message(is_there.status()));
    Note(run, (*store)->url(), State::kFailed, is_there.status());
    // That does not change.
    if (absl::IsAlreadyExists(is_there.status())) archived_.insert(run.id);
    // It would not answer for the next run either.
    return !absl::IsUnavailable(is_there.status());
  }
  // The manifest comes before the comparisons, which the daemon may not have
  // come to.
  const auto comparisons =
      world_.comparisons.ListComparisonsOf(run.spec.name, 0, 1);
  if (*is_there && comparisons.ok() && comparisons->empty()) {
    archived_.insert(run.id);
    Note(run, (*store)->url(), State::kDone, absl::OkStatus());
    return true;
  }
  ArchiveJob job;
  job.is_of_comparisons = *is_there;
  job.run = job.archived_run = run.spec.name;
  job.run_id = run.id;
  job.url = (*store)->url();
  job.is_automatic = true;
  job.caller = access::Daemon();
  return Add(std::move(job)).ok();
}

}  // namespace msitd::archive
