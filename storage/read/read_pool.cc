// SPDX-License-Identifier: Apache-2.0
#include "storage/read/read_pool.h"

#include <algorithm>
#include <utility>

#include "protos/os/thread.h"

namespace msitd::storage {

ReadPool::Job::Job(ReadPool& pool, size_t count,
                   absl::AnyInvocable<void(size_t)> work)
    : pool_(pool), work_(std::move(work)), states_(count) {
  if (count > 0) pool_.Add(*this);
}

ReadPool::Job::~Job() {
  const MutexLock lock(pool_.mu_);
  std::erase(pool_.jobs_, this);
  while (begun_count_ > 0) pool_.is_done_.Wait(pool_.mu_);
}

void ReadPool::Job::Await(size_t index) {
  std::atomic<State>& state = states_[index];
  if (state.load(std::memory_order_acquire) == State::kDone) return;
  {
    const MutexLock lock(pool_.mu_);
    while (state.load(std::memory_order_relaxed) == State::kBegun) {
      pool_.is_done_.Wait(pool_.mu_);
    }
    if (state.load(std::memory_order_relaxed) == State::kDone) return;
    state.store(State::kBegun, std::memory_order_relaxed);
    ++begun_count_;
  }
  Do(index);
}

bool ReadPool::Job::Begin(size_t& index) {
  for (; next_ < states_.size(); ++next_) {
    if (states_[next_].load(std::memory_order_relaxed) != State::kWaiting) {
      continue;
    }
    index = next_++;
    states_[index].store(State::kBegun, std::memory_order_relaxed);
    ++begun_count_;
    return true;
  }
  return false;
}

void ReadPool::Job::Do(size_t index) {
  work_(index);
  const MutexLock lock(pool_.mu_);
  states_[index].store(State::kDone, std::memory_order_release);
  --begun_count_;
  // Notifies under the lock: the job may be destroyed once the lock is free.
  pool_.is_done_.NotifyAll();
}

ReadPool::~ReadPool() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mu_);
    must_stop_ = true;
    has_work_.NotifyAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void ReadPool::Add(Job& job) {
  const MutexLock lock(mu_);
  jobs_.push_back(&job);
  while (threads_.size() < kThreadsMax) {
    std::thread thread = StartSpareThread("reads-ahead", [this] { Loop(); });
    if (!thread.joinable()) break;
    threads_.push_back(std::move(thread));
  }
  has_work_.NotifyAll();
}

void ReadPool::Loop() {
  while (true) {
    Job* job = nullptr;
    size_t index = 0;
    {
      const MutexLock lock(mu_);
      while (job == nullptr) {
        if (must_stop_) return;
        if (jobs_.empty()) {
          has_work_.Wait(mu_);
        } else if (jobs_.front()->Begin(index)) {
          job = jobs_.front();
        } else {
          jobs_.pop_front();
        }
      }
    }
    job->Do(index);
  }
}

}  // namespace msitd::storage
