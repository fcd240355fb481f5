// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/published_comparison.h"

#include <utility>

namespace msitd::compare {

void PublishedComparison::AddReader() {
  MutexLock lock(mu_);
  ++reader_count_;
}

void PublishedComparison::RemoveReader() {
  MutexLock lock(mu_);
  --reader_count_;
  read_time_ = Clock::now();
}

void PublishedComparison::NoteRead() {
  MutexLock lock(mu_);
  read_time_ = Clock::now();
}

bool PublishedComparison::IsDeleted() {
  MutexLock lock(mu_);
  return is_deleted_;
}

void PublishedComparison::SetDeleted(bool deleted) {
  MutexLock lock(mu_);
  is_deleted_ = deleted;
}

ComparisonView PublishedComparison::View() {
  MutexLock lock(mu_);
  return {shown_, version_};
}

bool PublishedComparison::AwaitEnd(Clock::time_point deadline) {
  MutexLock lock(mu_);
  while (!ended_) {
    if (!end_.WaitUntil(mu_, deadline)) return ended_;
  }
  return true;
}

bool PublishedComparison::IsStored() {
  MutexLock lock(mu_);
  return stored_;
}

void PublishedComparison::SetStored() {
  MutexLock lock(mu_);
  stored_ = true;
}

bool PublishedComparison::IsUnreadFor(std::chrono::milliseconds grace) {
  MutexLock lock(mu_);
  return reader_count_ == 0 && Clock::now() - read_time_ >= grace;
}

uint64_t PublishedComparison::AddWaiter(uint64_t version,
                                        absl::AnyInvocable<void()> wake) {
  {
    MutexLock lock(mu_);
    if (!ended_ && version_ <= version) {
      waiters_.emplace(++last_waiter_, std::move(wake));
      return last_waiter_;
    }
  }
  wake();
  return 0;
}

bool PublishedComparison::RemoveWaiter(uint64_t waiter) {
  MutexLock lock(mu_);
  return waiters_.erase(waiter) == 1;
}

void PublishedComparison::Show(const v1::Comparison& comparison, bool ended) {
  {
    MutexLock lock(mu_);
    shown_ = comparison;
    ended_ = ended_ || ended;
    if (ended_) end_.NotifyAll();
  }
  Wake();
}

void PublishedComparison::Wake() {
  std::map<uint64_t, absl::AnyInvocable<void()>> waiters;
  {
    MutexLock lock(mu_);
    ++version_;
    waiters.swap(waiters_);
  }
  for (auto& [number, wake] : waiters) wake();
}

}  // namespace msitd::compare
