// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "daemon/access/caller.h"
#include "daemon/access/fair_shares.h"
#include "daemon/metrics/latencies.h"
#include "grpcpp/support/status_code_enum.h"
#include "protos/os/thread.h"
#include "protos/status/mutex.h"

namespace msitd::service {

using Task = absl::AnyInvocable<void()>;

class TaskPool;

// The pools on which calls run. They are separate so that short calls do not
// queue after long ones. `control` runs calls that change or describe the
// daemon, a run or a comparison. `queries` runs calls that read tensors and
// rows, which are limited in time. `reductions` runs calls that may take a
// minute. All pools must outlive the services.
struct CallPools {
  TaskPool& control;
  TaskPool& queries;
  TaskPool& reductions;
};

// Runs tasks on a fixed number of threads, in the order of their arrival.
// Thread-safe.
class TaskPool {
 public:
  // Maximum bytes of responses that are being sent.
  static constexpr size_t kAnswerBytesMax = size_t{96} << 20;

  // `name` is the name of the threads. At most `queue_max` tasks wait.
  TaskPool(ThreadName name, int thread_count, size_t queue_max,
           size_t answer_bytes_max = kAnswerBytesMax);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // Accepts `task` and runs it once, or returns an error and destroys it:
  // RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if the queue is full, UNAVAILABLE
  // (NOT_SERVING) after Drain or Stop.
  absl::Status Submit(Task task);

  // Like the above, for the first task of a call. The queue is divided among
  // callers by access::FairShares.
  absl::Status Submit(const access::Caller& caller, Task task);

  // Accepts the next step of work that Submit accepted earlier, even if the
  // queue is full. Each call has at most one waiting step, so the number of
  // calls bounds the queue. Fails only after Stop.
  absl::Status SubmitNextStep(Task task);

  // Counts a call that works on this pool, from its first task until its
  // response has been sent, so that a server can wait for all responses. Must
  // be the first member of the call, so that it outlives the others.
  class CallCount {
   public:
    explicit CallCount(TaskPool& pool);
    ~CallCount();
    CallCount(const CallCount&) = delete;
    CallCount& operator=(const CallCount&) = delete;

    // Counts a response of `bytes` until the call is destroyed, which depends
    // on how fast the client reads. May be called at most once per call.
    //
    // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if all responses together
    // would exceed the limit of the pool, or three quarters of it if the caller
    // is not local, or the caller's share of it (see access::FairShares). A
    // single response is always accepted.
    absl::Status HoldAnswer(size_t bytes, const access::Caller& caller,
                            bool is_local);

   private:
    TaskPool& pool_;
    size_t answer_bytes_ = 0;
    access::FairShares::Grant answer_share_;
  };

  // Counts a call that ended with `code`. `duration` is the time to its
  // response if it has a single response.
  void CountEnd(grpc::StatusCode code,
                std::optional<std::chrono::nanoseconds> duration);

  // Totals of this pool. Codes are indexed by their number.
  static constexpr size_t kCodeCount = 17;
  struct Counted {
    metrics::Latencies::Snapshot latencies;
    std::array<uint64_t, kCodeCount> ended_by_code = {};
    size_t waiting_count = 0;  // Tasks waiting now.
  };
  Counted Count();

  // Refuses new tasks but not next steps, and returns when no call is counted
  // any more, or at `deadline`.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // Refuses new tasks, runs the waiting ones, and returns when all have ended.
  // May be called repeatedly, but not from a task.
  void Stop();

 private:
  absl::Status Enqueue(Task task, bool bounded);
  void Run();

  metrics::Latencies latencies_;
  // Independent counters.
  std::array<std::atomic<uint64_t>, kCodeCount> ended_by_code_ = {};

  const size_t queue_max_;
  access::FairShares queue_shares_;
  const size_t answer_bytes_max_;
  access::FairShares answer_shares_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mu_);
  bool drains_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t call_count_ ABSL_GUARDED_BY(mu_) = 0;
  size_t answer_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  CondVar calls_ended_;
  std::vector<std::thread> threads_;  // Changed only by constructor and Stop.
};

}  // namespace msitd::service
