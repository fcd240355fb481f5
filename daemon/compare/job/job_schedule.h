// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/fair_queue.h"
#include "daemon/access/fair_shares.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_job.h"
#include "protos/status/mutex.h"

namespace msitd::compare {

// The comparisons that have not ended, and where each of them is: queued,
// running on a thread, or parked until its runs grow. Callers share the limits
// (access::FairShares) and take turns (access::FairQueue). Thread-safe.
//
//   Add --> queued --AwaitNext--> running --Finish--> ended --Retire--> gone
//             ^                     |
//             \-Resume-- parked <-Park
class JobSchedule {
 public:
  using Job = std::shared_ptr<ComparisonJob>;

  // `live_max`: comparisons that run or wait. `followers_max`: comparisons that
  // follow their runs.
  JobSchedule(uint64_t live_max, uint64_t followers_max);
  JobSchedule(const JobSchedule&) = delete;
  JobSchedule& operator=(const JobSchedule&) = delete;

  // Reserves the share of a comparison that is about to be added.
  //
  // Errors: RESOURCE_EXHAUSTED with COMPARISONS_EXHAUSTED; UNAVAILABLE with
  // NOT_SERVING after Stop.
  absl::StatusOr<access::FairShares::Grant> Reserve(const ComparisonPlan& plan)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns UNAVAILABLE with NOT_SERVING after Stop.
  absl::Status CheckServing() ABSL_LOCKS_EXCLUDED(mu_);

  // Adds a job and queues it. After Stop, does not queue it and returns false;
  // the caller must end and retire it.
  bool Add(const Job& job, access::FairShares::Grant share)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Null if there is no such job.
  Job Find(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes a job that has ended, unless its end could not be stored.
  void Retire(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes a job that was deleted.
  void Remove(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for the next job to run; null after Stop.
  Job AwaitNext() ABSL_LOCKS_EXCLUDED(mu_);
  // Parks a running job that has nothing more to compare. Returns false if the
  // job must end now.
  bool Park(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the run of a job that has ended.
  void Finish(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until there are followers, and then for `interval`. Returns them;
  // nullopt after Stop.
  std::optional<std::vector<Job>> AwaitFollowers(
      std::chrono::milliseconds interval) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsParked(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Queues a parked job again, if it is still parked.
  void Resume(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // Removes the job from the queue or the parked jobs. Returns false if it is
  // in neither.
  bool Unqueue(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of comparisons that run or are queued before the job; 0
  // if it is not queued.
  int CountAhead(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the number of comparisons that run, follow or wait.
  int live_count() const {
    return static_cast<int>(live_shares_.used() + follower_shares_.used());
  }

  // Stops the running jobs, and returns those that were queued or parked. The
  // caller must end and retire them. May be called again.
  std::vector<Job> Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // The shares that the comparisons of each caller use, from before they are
  // queued until their jobs are removed.
  access::FairShares live_shares_;
  access::FairShares follower_shares_;

  Mutex mu_;
  CondVar changed_;
  CondVar followers_changed_;
  std::map<uint64_t, Job> jobs_ ABSL_GUARDED_BY(mu_);
  access::FairQueue<Job> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Job> running_ ABSL_GUARDED_BY(mu_);
  // Jobs that wait for their runs to grow, without a thread.
  std::vector<Job> parked_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, access::FairShares::Grant> shares_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::compare
