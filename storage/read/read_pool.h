// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "protos/status/mutex.h"

namespace msitd::storage {

// Threads that wait for the disk on behalf of their callers. They execute the
// pieces of jobs, one job after the other, and are started with the first job.
// Thread-safe.
class ReadPool {
 public:
  // Maximum number of concurrent reads, in addition to one for each thread in
  // Await.
  static constexpr size_t kThreadsMax = 4;

  // Pieces of work that may be executed in any order and concurrently.
  class Job {
   public:
    // `work` executes the piece with the given number, which is below `count`.
    // It is called at most once for each number. The pool must outlive the job.
    Job(ReadPool& pool, size_t count, absl::AnyInvocable<void(size_t)> work);
    // Drops pieces that have not begun, and waits for the others.
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // Returns when piece `index` is done; executes it on this thread if it has
    // not begun. The writes of `work` are then visible to the caller.
    // Thread-safe.
    void Await(size_t index);

   private:
    friend class ReadPool;
    enum class State : uint8_t { kWaiting, kBegun, kDone };

    // Begins the next piece that has not begun; false if there is none.
    bool Begin(size_t& index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool_.mu_);
    void Do(size_t index);

    ReadPool& pool_;
    absl::AnyInvocable<void(size_t)> work_;
    // Written under the lock. kDone is stored with release order, which pairs
    // with the acquire load in Await.
    std::vector<std::atomic<State>> states_;
    size_t next_ ABSL_GUARDED_BY(pool_.mu_) = 0;
    size_t begun_count_ ABSL_GUARDED_BY(pool_.mu_) = 0;
  };

  ReadPool() = default;
  // All jobs must have been destroyed.
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

 private:
  void Add(Job& job);
  void Loop();

  Mutex mu_;
  CondVar has_work_;
  CondVar is_done_;
  std::deque<Job*> jobs_ ABSL_GUARDED_BY(mu_);  // Jobs with pieces that have
                                                // not begun.
  bool must_stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
