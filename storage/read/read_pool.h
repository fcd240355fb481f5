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

// Threads that wait for the disk so that their callers need not. They do the
// pieces of jobs, one job after the other, and start with the first job.
// Thread-safe.
class ReadPool {
 public:
  // At most this many reads are in flight, and one more for each thread in
  // Await.
  static constexpr size_t kThreadsMax = 4;

  // Pieces of work that may be done in any order, and at the same time.
  class Job {
   public:
    // `work` does the piece with the given number, which is below `count`. It
    // is called at most once for each number. The pool outlives the job.
    Job(ReadPool& pool, size_t count, absl::AnyInvocable<void(size_t)> work);
    // Drops pieces that nobody has begun, and waits for the rest.
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // Returns once piece `index` is done; does it here if nobody has begun it.
    // The caller then sees what `work` wrote. Thread-safe.
    void Await(size_t index);

   private:
    friend class ReadPool;
    enum class State : uint8_t { kWaiting, kBegun, kDone };

    // Begins the next piece that nobody has begun; false if there is none.
    bool Begin(size_t& index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool_.mu_);
    void Do(size_t index);

    ReadPool& pool_;
    absl::AnyInvocable<void(size_t)> work_;
    // Written under the lock. kDone is stored with release order and pairs with
    // the acquire load in Await.
    std::vector<std::atomic<State>> states_;
    size_t next_ ABSL_GUARDED_BY(pool_.mu_) = 0;
    size_t begun_count_ ABSL_GUARDED_BY(pool_.mu_) = 0;
  };

  ReadPool() = default;
  // All jobs have ended.
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

 private:
  void Add(Job& job);
  void Loop();

  Mutex mu_;
  CondVar has_work_;
  CondVar is_done_;
  std::deque<Job*> jobs_ ABSL_GUARDED_BY(mu_);  // With pieces to begin.
  bool must_stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
