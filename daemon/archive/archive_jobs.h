// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "daemon/access/fair_queue.h"
#include "daemon/access/fair_shares.h"
#include "daemon/archive/give_way.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "protos/status/mutex.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/archive_source.h"
#include "storage/face/attachments.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"
#include "storage/face/runs.h"

namespace msitd::archive {

// A copy of a run, or work on an archive; see v1::ArchiveJob.
struct ArchiveJob {
  enum class Kind { kArchive, kRestore, kPrune };
  enum class State { kPending, kRunning, kDone, kFailed };

  int64_t id = 0;
  Kind kind = Kind::kArchive;
  std::string run;
  std::string url;
  std::string archived_run;
  bool gives_up = false;
  bool is_automatic = false;
  access::Caller caller;  // Who asked.

  State state = State::kPending;
  uint64_t record_count = 0;
  uint64_t record_total = 0;
  uint64_t sent_bytes = 0;
  uint64_t verified_bytes = 0;
  absl::Status status;  // Of a failed one.
  std::vector<std::string> differences;
  uint64_t comparison_count = 0;
  uint64_t left_comparison_count = 0;
  // Of one that is archived: the run that was asked for. If another one has its
  // name when the turn of the job comes, the job fails.
  storage::RunId run_id{};
  storage::UnreadableItems unreadable;
  // Of pruning: objects that changed less long ago stay.
  std::chrono::seconds age_min{0};
  uint64_t pruned_count = 0;
  uint64_t pruned_bytes = 0;
  // The run is in the archive, and its comparisons may not be.
  bool is_of_comparisons = false;
};

// How a run is archived; see v1::RunArchive.
struct RunArchive {
  std::string run = {};
  std::string url = {};
  ArchiveJob::State state = ArchiveJob::State::kPending;
  absl::Status last = {};         // Of the last try that has ended.
  uint64_t unreadable_count = 0;  // Tensors that the archive lacks.
  int64_t retry_time_ns = 0;      // Since the Unix epoch; 0: no try follows.
  uint64_t change = 0;            // Grows with each change of any run.
};

// See v1::ArchiveStatus.
struct ArchiveCounts {
  uint64_t pending_count = 0;
  uint64_t running_count = 0;
  uint64_t archived_count = 0;
  uint64_t failed_count = 0;
  uint64_t incomplete_count = 0;  // Of archived_count.
  std::string error;
  uint64_t sent_bytes = 0;
};

// Does copies one after the other on a thread of its own, which gives way to
// all others. Thread-safe.
class ArchiveJobs {
 public:
  struct Options {
    // Sealed runs go there by themselves; empty for nowhere.
    std::string archive_url;
    // How often sealed runs are looked for.
    std::chrono::milliseconds look_interval{2000};
    // After a failure that may pass, or without a segment that may return, a
    // run is tried again no sooner; after each further one, twice as late, up
    // to the maximum. Other failures stay until somebody acts: see
    // storage::IsPermanentArchiveError.
    std::chrono::milliseconds retry_interval{60'000};
    std::chrono::milliseconds retry_interval_max{3'600'000};
    int nice = 15;
    // While producers stream, an archive rests between its steps.
    GiveWay::Options give_way = {};
  };
  // Jobs that wait, divided among callers (access::FairShares), who take turns
  // (access::FairQueue).
  static constexpr size_t kWaitingMax = 256;
  static constexpr size_t kRememberedMax = 1024;

  // What jobs work on; outlives them.
  struct World {
    storage::Runs& runs;
    storage::RunReaders& readers;  // Of the store.
    storage::Attachments& attachments;
    storage::Comparisons& comparisons;
    storage::ArchivePlaces& places;
    ingest::IngestPipeline& pipeline;
  };

  ArchiveJobs(const World& world, const Options& options);
  ~ArchiveJobs();
  ArchiveJobs(const ArchiveJobs&) = delete;
  ArchiveJobs& operator=(const ArchiveJobs&) = delete;

  // Breaks off the job under way and begins no other.
  void Stop();

  // See v1::ArchiveService, also for the errors.
  absl::StatusOr<ArchiveJob> Archive(const std::string& run,
                                     const std::string& url, bool gives_up,
                                     const access::Caller& caller);
  absl::StatusOr<ArchiveJob> Restore(const std::string& url,
                                     const std::string& archived_run,
                                     const std::string& run,
                                     const access::Caller& caller);
  // Empty `archived_run`: the whole archive.
  absl::StatusOr<ArchiveJob> Prune(const std::string& url,
                                   const std::string& archived_run,
                                   std::chrono::seconds age_min,
                                   const access::Caller& caller);
  absl::StatusOr<ArchiveJob> Get(int64_t id);
  // The last one first.
  std::vector<ArchiveJob> List();
  // Nothing for a run that nobody wants to be archived.
  std::optional<RunArchive> OfRun(const storage::RunInfo& run);
  ArchiveCounts Counts();

 private:
  using JobPtr = std::shared_ptr<ArchiveJob>;

  absl::StatusOr<ArchiveJob> Add(ArchiveJob job) ABSL_LOCKS_EXCLUDED(mu_);
  void Loop();
  JobPtr Next() ABSL_LOCKS_EXCLUDED(mu_);
  void Do(ArchiveJob& job) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DoArchive(ArchiveJob& job);
  absl::Status ArchiveComparisonsOf(ArchiveJob& job,
                                    storage::ObjectStore& store);
  absl::Status DoRestore(ArchiveJob& job);
  absl::Status DoPrune(ArchiveJob& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Gives up the bytes of a run that is in the archive, unless these would be
  // the only ones or could be replaced there.
  absl::Status GiveUp(ArchiveJob& job, const storage::ArchiveManifest& manifest,
                      storage::ObjectStore& store);
  // OK if the run of that name is still the one that was asked for.
  absl::Status CheckIsSame(const ArchiveJob& job);
  // Tells how far a job has come; an error once it is to stop.
  absl::Status Report(ArchiveJob& job, uint64_t record_count,
                      uint64_t record_total) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsWanted(const storage::RunInfo& run) const {
    return run.sealed && !run.spec.restoring && !options_.archive_url.empty();
  }
  // Calls `visit` with each run of the store, in the order of names.
  absl::Status VisitRuns(
      absl::FunctionRef<void(const storage::RunInfo&)> visit);
  // Plans the next try for a run that failed, and returns when it is: since the
  // Unix epoch, 0 for never.
  int64_t PlanRetry(storage::RunId run, const absl::Status& status);
  // The same for any run, whatever happened to it.
  int64_t BackOff(storage::RunId run);
  // Plans what follows an automatic job that succeeded, and returns the same.
  int64_t PlanNext(const ArchiveJob& job);
  // True if it is not yet time to look at the run.
  bool MustWait(const storage::RunInfo& run) const;
  // Adds a job for each sealed run that the archive lacks, and forgets the runs
  // that have gone.
  void LookForRuns() ABSL_LOCKS_EXCLUDED(mu_);
  // False if no other run is to be looked for now.
  bool LookFor(const storage::RunInfo& run) ABSL_LOCKS_EXCLUDED(mu_);
  void Note(const storage::RunInfo& run, RunArchive archive)
      ABSL_LOCKS_EXCLUDED(mu_);
  void NoteLocked(const ArchiveJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the archive has of the run. ALREADY_EXISTS with RUN_EXISTS if it has
  // another one of that name.
  absl::StatusOr<std::optional<storage::ArchiveManifest>> FindArchived(
      storage::ObjectStore& store, const storage::RunInfo& run);

  const World world_;
  const Options options_;
  std::atomic<bool> stops_ = false;

  Mutex mu_;
  CondVar changed_;
  int64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<JobPtr> jobs_ ABSL_GUARDED_BY(mu_);  // All that are remembered.
  // Callers take turns.
  access::FairQueue<JobPtr> waiting_ ABSL_GUARDED_BY(mu_);
  access::FairShares waiting_shares_;
  // Of the jobs that wait, by their ids.
  std::map<int64_t, access::FairShares::Grant> shares_ ABSL_GUARDED_BY(mu_);
  std::map<storage::RunId, RunArchive> runs_ ABSL_GUARDED_BY(mu_);
  uint64_t sent_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
  // When runs_ last got the runs that are to be archived.
  std::chrono::steady_clock::time_point visit_time_ ABSL_GUARDED_BY(mu_);

  // Used by the thread only: runs that are not looked for again, because the
  // archive has all of them that can be read, or because no later try can
  // succeed; when others are; and the archives that never replace an object
  // unasked.
  struct Retry {
    std::chrono::steady_clock::time_point time;
    int failure_count = 0;
    // The run is archived without these bytes, whose segments were missing. It
    // is not read again while it misses as many.
    std::optional<uint64_t> missing_bytes;
  };
  std::set<storage::RunId> settled_;
  std::map<storage::RunId, Retry> retries_;
  std::set<std::string> exclusive_urls_;

  std::thread thread_;
};

}  // namespace msitd::archive
