// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_outline.h"
#include "daemon/compare/job/custom_metrics.h"
#include "daemon/compare/job/job_schedule.h"
#include "daemon/compare/match/stream_watch.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"
#include "storage/face/attachments.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Maximum number of comparisons that run at the same time, each on its own
// thread, of comparisons that wait for a thread, and of comparisons that follow
// their runs. The limit on those that run or wait and the limit on followers
// are each divided among callers (access::FairShares). Callers take turns
// (access::FairQueue). Further comparisons are refused with
// COMPARISONS_EXHAUSTED.
inline constexpr int kActiveComparisonsMax = 2;
inline constexpr int kWaitingComparisonsMax = 64;
inline constexpr int kFollowersMax = 64;

// Interval between two checks of followed runs for new data.
inline constexpr std::chrono::milliseconds kFollowInterval{200};

// A comparison that follows its runs and is not detached is cancelled after
// this time without a reader. A reader whose connection broke has enough time
// to reconnect.
inline constexpr std::chrono::milliseconds kReaderGrace{10'000};

// Maximum time that Start waits for a run in another place. Few threads serve
// such calls, so they must not be blocked for long.
inline constexpr std::chrono::milliseconds kOpenWait{2000};

// All comparisons of a daemon.
//
// A comparison needs a thread only while there is something to compare.
// Comparisons that wait for their runs to grow are parked without a thread. One
// more thread checks them every follow_interval and queues those with new data,
// so many followers need few threads. They pay for it with a delay of up to
// follow_interval. Comparisons that have ended are only in the store.
//
// The daemon creates one object after opening the store, and stops it before
// closing the store. Thread-safe. Calls block on the store and must not be made
// on threads of gRPC.
class ComparisonJobs {
 public:
  struct Options {
    int active_max = kActiveComparisonsMax;
    int waiting_max = kWaitingComparisonsMax;
    int followers_max = kFollowersMax;
    std::chrono::milliseconds follow_interval = kFollowInterval;
    std::chrono::milliseconds reader_grace = kReaderGrace;
    // Maximum time that Cancel waits for the comparison to end.
    std::chrono::milliseconds cancel_wait{2000};
    std::chrono::milliseconds open_wait = kOpenWait;
    // See kSilence.
    std::chrono::milliseconds silence = compare::kSilence;
  };

  // Starts the threads. Marks comparisons that an earlier daemon process did
  // not finish as FAILED with kDaemonStopped.
  //
  // Errors: those of the store.
  static absl::StatusOr<std::unique_ptr<ComparisonJobs>> Create(
      storage::RunReaders& readers, storage::Comparisons& store,
      storage::Attachments& attachments, const Options& options);

  // Makes comparisons that follow runs consider how the ranks of these runs
  // stream. Must be called at most once, before Start. `source` must be usable
  // until Stop returns.
  void WatchStreams(ActivitySource source) { activity_ = std::move(source); }

  ~ComparisonJobs();
  ComparisonJobs(const ComparisonJobs&) = delete;
  ComparisonJobs& operator=(const ComparisonJobs&) = delete;

  // Stores a new comparison and queues it. The fields of `request` are stored
  // in the document, and `plan` determines what is compared. A mapping is read
  // and checked here, and read again when the comparison runs. The runs must
  // exist. The exception is a run in another place that does not answer within
  // Options::open_wait: the comparison waits for that run later.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND; those of CheckRunId and LoadMapping;
  // that of `wait`; RESOURCE_EXHAUSTED with COMPARISONS_EXHAUSTED; UNAVAILABLE
  // with NOT_SERVING after Stop.
  absl::StatusOr<v1::Comparison> Start(const v1::Comparison& request,
                                       ComparisonPlan plan,
                                       const storage::WaitCheck& wait = {});

  // Stores a new comparison that judges the rows of `source` by `policy`, and
  // queues it. `source` is the state of the comparison that Get returned.
  // `request` is the policy in the form of a request.
  //
  // Errors: FAILED_PRECONDITION with FIELD_INVALID if the source is not DONE or
  // has no judge_context; NOT_FOUND with RUN_NOT_FOUND if its local runs were
  // deleted; RESOURCE_EXHAUSTED with COMPARISONS_EXHAUSTED; UNAVAILABLE with
  // NOT_SERVING after Stop.
  struct JudgeRequest {
    JudgedSource source;
    Policy policy;
    v1::Policy request;
    std::string owner;
    bool owner_is_admin = false;
  };
  absl::StatusOr<v1::Comparison> Judge(JudgeRequest request,
                                       const storage::WaitCheck& wait = {});

  // Returns FindOutline for `plan`. Does not create a comparison.
  absl::StatusOr<ComparisonOutline> Outline(const ComparisonPlan& plan,
                                            storage::StopCheck stop) {
    return FindOutline(readers_, plan, stop);
  }

  // The functions below return NOT_FOUND with COMPARISON_NOT_FOUND if there is
  // no comparison with the id.

  // Returns the current state of a comparison. Counts as a read of the
  // comparison, like Rows.
  absl::StatusOr<ComparisonView> Get(uint64_t id);

  // Waits for at most `time` until a comparison has ended. Returns false if it
  // has not. Returns true at once if it follows its runs or others run or are
  // queued before it, because its end is then too far away to wait for.
  bool AwaitEnd(uint64_t id, std::chrono::milliseconds time);

  // Registers a reader until the returned object is destroyed. Returns null if
  // the comparison has ended or does not exist.
  std::shared_ptr<void> AddReader(uint64_t id);

  // Returns at most `limit` comparisons with an id above `after`, in ascending
  // order.
  absl::StatusOr<std::vector<v1::Comparison>> List(uint64_t after,
                                                   size_t limit);

  // Stops a comparison that has not ended. If it does not end within
  // Options::cancel_wait, its current state is returned, and it ends soon
  // after.
  absl::StatusOr<v1::Comparison> Cancel(uint64_t id);

  // Stops a comparison, and removes it with its rows.
  absl::Status Delete(uint64_t id);

  // Returns at most `limit` rows starting at `first_row`. Only rows that Get
  // counts are returned.
  absl::StatusOr<std::vector<v1::ComparisonRow>> Rows(uint64_t id,
                                                      int64_t first_row,
                                                      size_t limit);

  // Adds metrics to rows of a comparison that has ended. They are durable on
  // return.
  //
  // Errors: those of CheckRowMetrics and StoreRowMetrics; FAILED_PRECONDITION
  // with FIELD_INVALID if the comparison has not ended. Nothing is added in
  // these cases.
  absl::StatusOr<v1::Comparison> AddRowMetrics(uint64_t id,
                                               const RowMetricsList& rows);

  // Calls `wake` once when Get returns a version above `version`, or when there
  // is nothing to wait for because the comparison has ended or does not exist.
  // `wake` may be called on any thread and during this call. Returns a number
  // for StopWaiting.
  uint64_t AwaitChange(uint64_t id, uint64_t version,
                       absl::AnyInvocable<void()> wake);

  // Returns true if the `wake` with this number will never be called, false if
  // it was or will be called.
  bool StopWaiting(uint64_t id, uint64_t waiter);

  // Returns the number of comparisons that run, follow or wait.
  int live_count() const { return schedule_.live_count(); }

  // Ends all comparisons with FAILED and kDaemonStopped, and returns when they
  // have ended. Running comparisons first finish the parts that they are
  // processing. May be called again.
  void Stop();

 private:
  // Returns FindRunId of a run. If `id` is not empty, the run must have that
  // id. Returns `id` if the place of the run does not answer within
  // Options::open_wait.
  absl::StatusOr<std::string> CheckRun(const storage::RunAddress& run,
                                       const std::string& id,
                                       const storage::WaitCheck& wait);
  // Returns the local runs of a comparison that still exist.
  absl::StatusOr<std::vector<std::string>> LocalRunsOf(
      const v1::Comparison& comparison, const storage::WaitCheck& wait);
  using Job = JobSchedule::Job;
  // Stores and queues a comparison for which `share` is reserved.
  absl::StatusOr<v1::Comparison> Queue(v1::Comparison comparison,
                                       ComparisonPlan plan,
                                       const std::vector<std::string>& runs,
                                       access::FairShares::Grant share);

  ComparisonJobs(storage::RunReaders& readers, storage::Comparisons& store,
                 storage::Attachments& attachments, const Options& options);

  absl::Status FailUnfinished();
  void Work();
  void WatchFollowers();
  void LookAfter(const Job& job);
  // Same as Get, but does not count as a read.
  absl::StatusOr<ComparisonView> Look(uint64_t id);
  // Reads the mapping, and sets its hash in both arguments.
  absl::Status CheckMapping(MappingSource& source, v1::Comparison& comparison);
  absl::StatusOr<v1::Comparison> Load(uint64_t id);

  storage::RunReaders& readers_;
  storage::Comparisons& store_;
  storage::Attachments& attachments_;
  const Options options_;

  // Held during changes and removals of comparisons that have ended. No change
  // is lost, and nothing is written for a removed comparison.
  Mutex ended_mu_;

  JobSchedule schedule_;
  ActivitySource activity_;
  std::vector<std::thread> threads_;  // Changed only by Create and Stop.
};

}  // namespace msitd::compare
