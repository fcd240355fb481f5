// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/fair_queue.h"
#include "daemon/access/fair_shares.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_outline.h"
#include "daemon/compare/job/custom_metrics.h"
#include "daemon/compare/match/stream_watch.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"
#include "storage/face/attachments.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Comparisons that run at a time, each on a thread of its own, and that wait
// for them; and, counted apart, those that follow their runs. Both limits are
// divided among callers (access::FairShares), who take turns
// (access::FairQueue). One more is refused with COMPARISONS_EXHAUSTED.
inline constexpr int kActiveComparisonsMax = 2;
inline constexpr int kWaitingComparisonsMax = 64;
inline constexpr int kFollowersMax = 64;

// How often runs are looked at that somebody follows.
inline constexpr std::chrono::milliseconds kFollowInterval{200};

// A comparison that follows its runs, is not detached and has had no reader for
// so long is cancelled: long enough for one whose connection broke.
inline constexpr std::chrono::milliseconds kReaderGrace{10'000};

// How long Start waits for a run that lies elsewhere. Few threads make
// comparisons.
inline constexpr std::chrono::milliseconds kOpenWait{2000};

// All comparisons of a daemon: those that run, on its threads, those that
// follow runs with nothing new, without a thread, and those that have ended, in
// the store.
//
// Made by the daemon once the store is open, and stopped before it is closed.
// Thread-safe. Calls block on the store: none from a thread of gRPC.
class ComparisonJobs {
 public:
  struct Options {
    int active_max = kActiveComparisonsMax;
    int waiting_max = kWaitingComparisonsMax;
    int followers_max = kFollowersMax;
    std::chrono::milliseconds follow_interval = kFollowInterval;
    std::chrono::milliseconds reader_grace = kReaderGrace;
    // How long Cancel waits for the comparison to end before it returns.
    std::chrono::milliseconds cancel_wait{2000};
    std::chrono::milliseconds open_wait = kOpenWait;
    // See kSilence.
    std::chrono::milliseconds silence = compare::kSilence;
  };

  // Starts the threads. Comparisons that an earlier daemon did not finish are
  // marked FAILED with kDaemonStopped.
  //
  // Errors: those of the store.
  static absl::StatusOr<std::unique_ptr<ComparisonJobs>> Create(
      storage::RunReaders& readers, storage::Comparisons& store,
      storage::Attachments& attachments, const Options& options);

  // Has comparisons that follow runs look at how their ranks stream. Called
  // once, before Start; `source` outlives the jobs, or Stop.
  void WatchStreams(ActivitySource source) { activity_ = std::move(source); }

  ~ComparisonJobs();
  ComparisonJobs(const ComparisonJobs&) = delete;
  ComparisonJobs& operator=(const ComparisonJobs&) = delete;

  // Stores a new comparison and queues it. Runs, filter, policy and so on are
  // taken from `request` for the record, and from `plan` for the work. A
  // mapping is read and checked, and read again when the comparison runs.
  // Whether the runs are there is found out at once, but for one that lies
  // elsewhere and says nothing for Options::open_wait: the comparison goes on
  // to wait for that.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND; those of CheckRunId and LoadMapping;
  // that of `wait`; RESOURCE_EXHAUSTED with COMPARISONS_EXHAUSTED; UNAVAILABLE
  // with NOT_SERVING behind Stop.
  absl::StatusOr<v1::Comparison> Start(const v1::Comparison& request,
                                       ComparisonPlan plan,
                                       const storage::WaitCheck& wait = {});

  // FindOutline for a comparison that is not made.
  absl::StatusOr<ComparisonOutline> Outline(const ComparisonPlan& plan,
                                            storage::StopCheck stop) {
    return FindOutline(readers_, plan, stop);
  }

  // The calls below give NOT_FOUND with COMPARISON_NOT_FOUND for an id that
  // there is not.

  // Counts as reading it, like Rows.
  absl::StatusOr<ComparisonView> Get(uint64_t id);

  // Says that the rows of a comparison are read until the returned object goes;
  // null if it has ended or there is none.
  std::shared_ptr<void> AddReader(uint64_t id);

  // Returns at most `limit` comparisons with an id above `after`, in order.
  absl::StatusOr<std::vector<v1::Comparison>> List(uint64_t after,
                                                   size_t limit);

  // Stops a comparison that has not ended. One that does not end within
  // Options::cancel_wait is returned as it is then, and ends soon.
  absl::StatusOr<v1::Comparison> Cancel(uint64_t id);

  // Stops and removes a comparison with its rows.
  absl::Status Delete(uint64_t id);

  // Returns at most `limit` rows from `first_row` on, as far as Get counts
  // them.
  absl::StatusOr<std::vector<v1::ComparisonRow>> Rows(uint64_t id,
                                                      int64_t first_row,
                                                      size_t limit);

  // Adds metrics to rows of a comparison that has ended; durable on return.
  //
  // Errors, and then nothing is added: those of CheckRowMetrics and
  // StoreRowMetrics; FAILED_PRECONDITION with FIELD_INVALID for one that has
  // not ended.
  absl::StatusOr<v1::Comparison> AddRowMetrics(uint64_t id,
                                               const RowMetricsList& rows);

  // Calls `wake` once, from some thread and maybe within this call, when Get
  // gives a version above `version`, or when there is nothing to wait for
  // because the comparison has ended or is gone. Returns a number for
  // StopWaiting.
  uint64_t AwaitChange(uint64_t id, uint64_t version,
                       absl::AnyInvocable<void()> wake);

  // Returns true if the `wake` of this number will never be called, false if
  // it was or will be.
  bool StopWaiting(uint64_t id, uint64_t waiter);

  // Comparisons that run, follow or wait.
  int live_count();

  // Ends running comparisons as soon as their parts at hand are done, and
  // waiting ones at once, all with FAILED and kDaemonStopped; returns when all
  // have ended. May be called again.
  void Stop();

 private:
  // Returns FindRunId of a run, which has to be `id` unless that is empty;
  // just `id` if a place says nothing for Options::open_wait.
  absl::StatusOr<std::string> CheckRun(const storage::RunAddress& run,
                                       const std::string& id,
                                       const storage::WaitCheck& wait);
  using Job = std::shared_ptr<ComparisonJob>;

  ComparisonJobs(storage::RunReaders& readers, storage::Comparisons& store,
                 storage::Attachments& attachments, const Options& options);

  absl::Status FailUnfinished();
  void Work();
  // Takes the job from the thread that ran it; false if it is to end now.
  bool Park(const Job& job);
  void WatchFollowers();
  void LookAfter(const Job& job);
  Job Find(uint64_t id);
  // As Get, and counts as nothing.
  absl::StatusOr<ComparisonView> Look(uint64_t id);
  // How many are taken from the queue before the job, and run.
  int CountAhead(const Job& job);
  // Takes the job out of the queue, or from where it is parked; false if it is
  // in neither place.
  bool Unqueue(const Job& job);
  // Forgets a job that has ended, unless it is the only one to know its end.
  void Retire(const Job& job);
  absl::Status CheckServing();
  // Takes the share of a comparison that is on its way into the queue.
  absl::StatusOr<access::FairShares::Grant> Reserve(const ComparisonPlan& plan)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Reads the mapping, and notes its hash in both.
  absl::Status CheckMapping(MappingSource& source, v1::Comparison& comparison);
  absl::StatusOr<v1::Comparison> Load(uint64_t id);

  storage::RunReaders& readers_;
  storage::Comparisons& store_;
  storage::Attachments& attachments_;
  const Options options_;

  // Held over changes of comparisons that have ended and over removals, so that
  // none is lost and nothing of a removed one is written.
  Mutex ended_mu_ ABSL_ACQUIRED_BEFORE(mu_);

  Mutex mu_;
  CondVar changed_;
  std::map<uint64_t, Job> jobs_ ABSL_GUARDED_BY(mu_);
  access::FairQueue<Job> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Job> running_ ABSL_GUARDED_BY(mu_);
  // Those that wait for their runs to grow, and have no thread.
  std::vector<Job> parked_ ABSL_GUARDED_BY(mu_);
  CondVar followers_changed_;
  // What the comparisons of each caller take, from before they are queued until
  // their jobs are gone.
  access::FairShares live_shares_;
  access::FairShares follower_shares_;
  std::map<uint64_t, access::FairShares::Grant> shares_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  ActivitySource activity_;
  std::vector<std::thread> threads_;  // Changed by Create and Stop only.
};

}  // namespace msitd::compare
