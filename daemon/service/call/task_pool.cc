// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/task_pool.h"

#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"
namespace msitd::service {

TaskPool::TaskPool(ThreadName name, int thread_count, size_t queue_max,
                   size_t answer_bytes_max)
    : queue_max_(queue_max),
      queue_shares_({.what = "waiting requests",
                     .capacity = queue_max,
                     .reason = ErrorReason::kRequestsExhausted}),
      answer_bytes_max_(answer_bytes_max),
      answer_shares_(
          {.what = "bytes of answers that wait for their callers to take them",
           .capacity = answer_bytes_max,
           .reason = ErrorReason::kRequestsExhausted}) {
  threads_.reserve(thread_count);
  for (int i = 0; i < thread_count; ++i) {
    threads_.push_back(StartThread(name, [this] { Run(); }));
  }
}

TaskPool::~TaskPool() { Stop(); }

absl::Status TaskPool::Submit(Task task) {
  return Enqueue(std::move(task), /*bounded=*/true);
}

absl::Status TaskPool::Submit(const access::Caller& caller, Task task) {
  MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                         queue_shares_.Acquire(caller));
  return Submit([share = std::move(share), task = std::move(task)]() mutable {
    share.Release();
    task();
  });
}

absl::Status TaskPool::SubmitNextStep(Task task) {
  return Enqueue(std::move(task), /*bounded=*/false);
}

absl::Status TaskPool::Enqueue(Task task, bool bounded) {
  {
    MutexLock lock(mu_);
    if (stopped_ || (drains_ && bounded)) {
      return WithReason(MakeStatus(absl::StatusCode::kUnavailable,
                                   "the daemon is going down"),
                        ErrorReason::kNotServing);
    }
    if (bounded && queue_.size() >= queue_max_) {
      return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                   "{} requests are waiting", queue_.size()),
                        ErrorReason::kRequestsExhausted);
    }
    queue_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

TaskPool::CallCount::CallCount(TaskPool& pool) : pool_(pool) {
  MutexLock lock(pool_.mu_);
  ++pool_.call_count_;
}

TaskPool::CallCount::~CallCount() {
  // Notify while holding the lock: a waiting thread may destroy the pool as
  // soon as the lock is released.
  MutexLock lock(pool_.mu_);
  pool_.answer_bytes_ -= answer_bytes_;
  MSITD_CHECK(pool_.call_count_ > 0);
  if (--pool_.call_count_ == 0) pool_.calls_ended_.NotifyAll();
}

absl::Status TaskPool::CallCount::HoldAnswer(size_t bytes,
                                             const access::Caller& caller,
                                             bool is_local) {
  MSITD_CHECK(answer_bytes_ == 0);
  const size_t bytes_max =
      is_local ? pool_.answer_bytes_max_ : pool_.answer_bytes_max_ / 4 * 3;
  MutexLock lock(pool_.mu_);
  // A single response is always accepted, whatever its size.
  if (pool_.answer_bytes_ > 0 && pool_.answer_bytes_ + bytes > bytes_max) {
    return WithReason(
        MakeStatus(absl::StatusCode::kResourceExhausted,
                   "answers of {} bytes wait for their callers to take them",
                   pool_.answer_bytes_),
        ErrorReason::kRequestsExhausted);
  }
  if (pool_.answer_bytes_ > 0) {
    MSITD_ASSIGN_OR_RETURN(answer_share_,
                           pool_.answer_shares_.Acquire(caller, bytes));
  }
  pool_.answer_bytes_ += bytes;
  answer_bytes_ = bytes;
  return absl::OkStatus();
}

void TaskPool::CountEnd(grpc::StatusCode code,
                        std::optional<std::chrono::nanoseconds> duration) {
  const auto number = static_cast<size_t>(code);
  if (number < kCodeCount) {
    ended_by_code_[number].fetch_add(1, std::memory_order_relaxed);
  }
  if (duration.has_value()) latencies_.Add(*duration);
}

TaskPool::Counted TaskPool::Count() {
  Counted out;
  out.latencies = latencies_.Read();
  for (size_t i = 0; i < kCodeCount; ++i) {
    out.ended_by_code[i] = ended_by_code_[i].load(std::memory_order_relaxed);
  }
  MutexLock lock(mu_);
  out.waiting_count = queue_.size();
  return out;
}

void TaskPool::Drain(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mu_);
  drains_ = true;
  while (call_count_ > 0 && calls_ended_.WaitUntil(mu_, deadline)) {
  }
}

void TaskPool::Run() {
  while (true) {
    Task task;
    {
      MutexLock lock(mu_);
      while (queue_.empty() && !stopped_) changed_.Wait(mu_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

void TaskPool::Stop() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace msitd::service
