// SPDX-License-Identifier: Apache-2.0
// The runs that the daemon archives by itself.
#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/archive/archive_jobs.h"
#include "daemon/log/log.h"
#include "protos/status/status.h"

namespace msitd::archive {
namespace {

constexpr size_t kRunsAtOnce = 256;

using State = ArchiveJob::State;

}  // namespace

absl::Status ArchiveJobs::VisitRuns(
    absl::FunctionRef<void(const storage::RunInfo&)> visit) {
  std::string after;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RunInfo> runs,
                           world_.runs.ListRuns(after, kRunsAtOnce));
    if (runs.empty()) return absl::OkStatus();
    after = runs.back().spec.name;
    for (const storage::RunInfo& run : runs) visit(run);
  }
}

void ArchiveJobs::LookForRuns() {
  if (options_.archive_url.empty()) {
    const MutexLock lock(mu_);
    if (runs_.empty()) return;
  }
  std::set<storage::RunId> there;
  std::vector<storage::RunInfo> wanted;
  const absl::Status visited = VisitRuns([&](const storage::RunInfo& run) {
    there.insert(run.id);
    if (!IsWanted(run) || settled_.contains(run.id)) return;
    {
      const MutexLock lock(mu_);
      runs_.try_emplace(run.id,
                        RunArchive{run.spec.name, options_.archive_url});
    }
    if (MustWait(run)) return;
    if (wanted.size() < kWaitingMax) wanted.push_back(run);
  });
  if (!visited.ok()) return;
  const auto has_gone = [&](const auto& one) {
    return !there.contains(one.first);
  };
  std::erase_if(settled_,
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
  // Tensors of the run may be in a missing segment that returns later.
  if (run.counters.unread_place_count > 0) return true;
  const auto store = world_.places.Open(options_.archive_url);
  if (!store.ok()) return false;
  const auto archived = FindArchived(**store, run);
  if (!archived.ok()) {
    log::Get("archive")->warn("not archived run={} url={} error='{}'",
                              run.spec.name, options_.archive_url,
                              Message(archived.status()));
    Note(run, {.url = (*store)->url(),
               .state = State::kFailed,
               .last = archived.status(),
               .retry_time_ns = PlanRetry(run.id, archived.status())});
    // It would not answer for the next run either.
    return !absl::IsUnavailable(archived.status());
  }
  // The manifest comes before the comparisons, which the daemon may not have
  // come to.
  const auto comparisons =
      world_.comparisons.ListComparisonsOf(run.spec.name, 0, 1);
  const bool is_whole =
      archived->has_value() && (*archived)->unreadable.empty();
  if (is_whole && comparisons.ok() && comparisons->empty()) {
    settled_.insert(run.id);
    Note(run, {.url = (*store)->url(), .state = State::kDone});
    return true;
  }
  // Reading the run again would find the same.
  const auto last = retries_.find(run.id);
  if (archived->has_value() && last != retries_.end() &&
      last->second.missing_bytes.has_value() &&
      run.counters.missing_bytes > 0 &&
      run.counters.missing_bytes >= *last->second.missing_bytes) {
    last->second.missing_bytes = run.counters.missing_bytes;
    Note(run, {.url = (*store)->url(),
               .state = State::kDone,
               .unreadable_count = (*archived)->unreadable.tensor_count,
               .retry_time_ns = BackOff(run.id)});
    return true;
  }
  // A run that is being archived is looked at again after a while.
  Retry& retry = retries_[run.id];
  retry.missing_bytes.reset();
  retry.time = std::chrono::steady_clock::now() + options_.retry_interval;
  ArchiveJob job;
  job.is_of_comparisons = is_whole;
  job.run = job.archived_run = run.spec.name;
  job.run_id = run.id;
  job.url = (*store)->url();
  job.is_automatic = true;
  job.caller = access::Daemon();
  return Add(std::move(job)).ok();
}

}  // namespace msitd::archive
