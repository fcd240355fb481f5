// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/job_schedule.h"

#include <algorithm>
#include <utility>

#include "protos/base/error_reason.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

absl::Status NotServing() {
  return WithReason(absl::UnavailableError("the daemon is going down"),
                    ErrorReason::kNotServing);
}

access::Caller OwnerOf(const ComparisonPlan& plan) {
  return {plan.owner,
          plan.owner_is_admin ? access::Role::kAdmin : access::Role::kReader};
}

}  // namespace

JobSchedule::JobSchedule(uint64_t live_max, uint64_t followers_max)
    : live_shares_({.what = "comparisons that run or wait",
                    .capacity = live_max,
                    .reason = ErrorReason::kComparisonsExhausted}),
      follower_shares_({.what = "comparisons that follow their runs",
                        .capacity = followers_max,
                        .reason = ErrorReason::kComparisonsExhausted}) {}

absl::Status JobSchedule::CheckServing() {
  MutexLock lock(mu_);
  return stopping_ ? NotServing() : absl::OkStatus();
}

absl::StatusOr<access::FairShares::Grant> JobSchedule::Reserve(
    const ComparisonPlan& plan) {
  MSITD_RETURN_IF_ERROR(CheckServing());
  access::FairShares& shares = plan.follow ? follower_shares_ : live_shares_;
  return shares.Acquire(OwnerOf(plan));
}

bool JobSchedule::Add(const Job& job, access::FairShares::Grant share) {
  MutexLock lock(mu_);
  jobs_[job->id()] = job;
  if (stopping_) return false;
  shares_[job->id()] = std::move(share);
  queue_.Push(job->owner(), job);
  changed_.NotifyAll();
  followers_changed_.NotifyAll();
  return true;
}

JobSchedule::Job JobSchedule::AwaitNext() {
  MutexLock lock(mu_);
  while (queue_.empty() && !stopping_) changed_.Wait(mu_);
  if (stopping_) return nullptr;
  Job job = *queue_.Pop();
  running_.push_back(job);
  return job;
}

bool JobSchedule::Park(const Job& job) {
  MutexLock lock(mu_);
  if (stopping_ || job->is_stopping()) return false;
  std::erase(running_, job);
  queue_.Finish(job->owner());
  parked_.push_back(job);
  return true;
}

void JobSchedule::Finish(const Job& job) {
  MutexLock lock(mu_);
  std::erase(running_, job);
  queue_.Finish(job->owner());
  shares_.erase(job->id());
}

std::optional<std::vector<JobSchedule::Job>> JobSchedule::AwaitFollowers(
    std::chrono::milliseconds interval) {
  const auto follows = [](const auto& job) { return job.second->follows(); };
  std::vector<Job> followers;
  MutexLock lock(mu_);
  while (!stopping_ && std::none_of(jobs_.begin(), jobs_.end(), follows)) {
    followers_changed_.Wait(mu_);
  }
  const auto next = std::chrono::steady_clock::now() + interval;
  while (!stopping_ && followers_changed_.WaitUntil(mu_, next)) {
  }
  if (stopping_) return std::nullopt;
  for (const auto& job : jobs_) {
    if (follows(job)) followers.push_back(job.second);
  }
  return followers;
}

bool JobSchedule::IsParked(const Job& job) {
  MutexLock lock(mu_);
  return std::find(parked_.begin(), parked_.end(), job) != parked_.end();
}

void JobSchedule::Resume(const Job& job) {
  MutexLock lock(mu_);
  if (std::erase(parked_, job) == 0) return;
  queue_.Push(job->owner(), job);
  changed_.NotifyAll();
}

int JobSchedule::CountAhead(const Job& job) {
  MutexLock lock(mu_);
  const std::optional<size_t> count = queue_.CountBefore(job);
  if (!count.has_value()) return 0;
  return static_cast<int>(*count + running_.size());
}

JobSchedule::Job JobSchedule::Find(uint64_t id) {
  MutexLock lock(mu_);
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second;
}

bool JobSchedule::Unqueue(const Job& job) {
  MutexLock lock(mu_);
  if (!queue_.Remove(job) && std::erase(parked_, job) == 0) return false;
  shares_.erase(job->id());
  return true;
}

void JobSchedule::Retire(const Job& job) {
  if (!job->published().IsStored()) return;
  MutexLock lock(mu_);
  jobs_.erase(job->id());
}

void JobSchedule::Remove(uint64_t id) {
  MutexLock lock(mu_);
  jobs_.erase(id);
}

std::vector<JobSchedule::Job> JobSchedule::Stop() {
  MutexLock lock(mu_);
  stopping_ = true;
  std::vector<Job> waiting;
  waiting.swap(parked_);
  const std::vector<Job> queued = queue_.Clear();
  waiting.insert(waiting.end(), queued.begin(), queued.end());
  for (const Job& job : waiting) shares_.erase(job->id());
  for (const Job& job : running_) {
    job->Stop(ComparisonJob::StopCause::kShutdown);
  }
  changed_.NotifyAll();
  followers_changed_.NotifyAll();
  return waiting;
}

}  // namespace msitd::compare
