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

// Where calls run, so that short ones do not queue behind long ones. `control`
// has the calls that change or describe the daemon, a run or a comparison.
// `queries` has those that look at tensors and rows, which are bounded in time.
// `reductions` has those that may take a minute. All outlive the services.
struct CallPools {
  TaskPool& control;
  TaskPool& queries;
  TaskPool& reductions;
};

// Runs tasks on a fixed number of threads, in the order of their arrival.
// Thread-safe.
class TaskPool {
 public:
  // Bytes of answers that are on their way to callers.
  static constexpr size_t kAnswerBytesMax = size_t{96} << 20;

  // `name` is that of the threads. At most `queue_max` tasks wait.
  TaskPool(ThreadName name, int thread_count, size_t queue_max,
           size_t answer_bytes_max = kAnswerBytesMax);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // Takes `task` and runs it once, or returns an error and destroys it:
  // RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if the queue is full, UNAVAILABLE
  // (NOT_SERVING) after Drain or Stop.
  absl::Status Submit(Task task);

  // The same, for the first task of a call: the queue is divided among callers
  // as access::FairShares says.
  absl::Status Submit(const access::Caller& caller, Task task);

  // Takes the next step of something that Submit accepted before, even if the
  // queue is full: a caller has at most one step waiting, so the queue stays
  // bounded by the callers. Fails only after Stop.
  absl::Status SubmitNextStep(Task task);

  // Counts a call that works on this pool, from its first task until its answer
  // is out, so that a server knows when nobody waits for an answer. Has to be
  // the first member of the call, so that it outlives the others.
  class CallCount {
   public:
    explicit CallCount(TaskPool& pool);
    ~CallCount();
    CallCount(const CallCount&) = delete;
    CallCount& operator=(const CallCount&) = delete;

    // Counts an answer of `bytes` until the call is gone; when that is depends
    // on how fast the caller reads. Called at most once for each call.
    //
    // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if all answers together
    // would exceed the bound of the pool, or three quarters of it if the caller
    // is not local, or the caller's share of it (see access::FairShares). A
    // single answer is always taken.
    absl::Status HoldAnswer(size_t bytes, const access::Caller& caller,
                            bool is_local);

   private:
    TaskPool& pool_;
    size_t answer_bytes_ = 0;
    access::FairShares::Grant answer_share_;
  };

  // Counts a call that ended with `code`, and how long its answer took if it
  // has one answer.
  void CountEnd(grpc::StatusCode code,
                std::optional<std::chrono::nanoseconds> duration);

  // What was counted. Codes by their number.
  static constexpr size_t kCodeCount = 17;
  struct Counted {
    metrics::Latencies::Snapshot latencies;
    std::array<uint64_t, kCodeCount> ended_by_code = {};
    size_t waiting_count = 0;  // Tasks that wait now.
  };
  Counted Count();

  // Refuses new tasks but not next steps, and returns once no call is counted,
  // or at `deadline`.
  void Drain(std::chrono::steady_clock::time_point deadline);

  // Refuses new tasks, runs those that wait, and returns when all have ended.
  // May be called again; not from a task.
  void Stop();

 private:
  absl::Status Enqueue(Task task, bool bounded);
  void Run();

  metrics::Latencies latencies_;
  // Each stands alone.
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
  std::vector<std::thread> threads_;  // Changed by constructor and Stop only.
};

}  // namespace msitd::service
