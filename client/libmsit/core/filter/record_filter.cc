// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/record_filter.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace msitd::libmsit {
namespace {

// Time between two checks for readers. An active reader finishes within a
// microsecond.
constexpr std::chrono::microseconds kReaderWait{20};

// The selection number without a policy. No policy has this number.
constexpr uint64_t kEverything = 0;

}  // namespace

class RecordFilter::Reading {
 public:
  Reading(Shard& shard, const std::atomic<Policy*>& in_force) : shard_(shard) {
    shard_.word.fetch_add(1);
    policy_ = in_force.load();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  // Sequentially consistent, so it also orders the reads of the policy before
  // the thread that frees it.
  ~Reading() { shard_.word.fetch_add(leave_); }

  // Null if no policy is in force.
  Policy* policy() const { return policy_; }
  void CountFiltered() { leave_ += kOneFiltered; }

 private:
  Shard& shard_;
  Policy* policy_;
  uint64_t leave_ = ~uint64_t{0};
};

capture::Level RecordFilter::Policy::LevelOf(std::string_view device,
                                             int64_t token, std::string_view op,
                                             Io io) {
  const capture::OpRules* rules = cache.Find(op);
  return rules == nullptr ? schedule->LevelOf(device, token, op, io)
                          : schedule->LevelOf(device, token, *rules, io);
}

bool RecordFilter::Policy::MayRecord(int64_t token, std::string_view op,
                                     Io io) {
  const capture::OpRules* rules = cache.Find(op);
  return rules == nullptr ? schedule->MayRecord(token, op, io)
                          : schedule->MayRecord(token, *rules, io);
}

RecordFilter::Shard& RecordFilter::ShardOfThread() {
  // The upper bits of the product depend on all bits of the address.
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const auto thread = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  return shards_[thread * kOdd >> 60];
}

bool RecordFilter::IsRead() const {
  static_assert(kShardCount == 16, "see ShardOfThread");
  return std::any_of(shards_.begin(), shards_.end(), [](const Shard& shard) {
    return (shard.word.load() & kReaderMask) != 0;
  });
}

uint64_t RecordFilter::filtered_count() const {
  uint64_t count = 0;
  for (const Shard& shard : shards_) count += shard.word.load() >> kReaderBits;
  return count;
}

void RecordFilter::Set(std::unique_ptr<const capture::Schedule> schedule) {
  const std::lock_guard lock(mu_);
  auto policy = schedule == nullptr ? nullptr
                                    : std::make_unique<Policy>(
                                          std::move(schedule), ++policy_count_);
  if (!is_stopped_) Replace(std::move(policy));
}

void RecordFilter::Stop() {
  {
    const std::lock_guard lock(mu_);
    is_stopped_ = true;
    in_force_.store(nullptr);
  }
  while (IsRead()) std::this_thread::sleep_for(kReaderWait);
}

void RecordFilter::Replace(std::unique_ptr<Policy> policy) {
  // A policy that never was in force has no readers.
  if (in_force_.exchange(nullptr) != nullptr) retired_ = std::move(newest_);
  newest_ = std::move(policy);
  is_on_.store(newest_ != nullptr, std::memory_order_relaxed);
  Advance();
}

void RecordFilter::Advance() {
  if (is_stopped_ || (retired_ != nullptr && IsRead())) return;
  retired_.reset();
  in_force_.store(newest_.get());
}

capture::Level RecordFilter::Take(std::string_view device, int64_t token,
                                  std::string_view op, Io io) {
  if (!is_on_.load(std::memory_order_relaxed)) return capture::Level::kFull;
  Shard& shard = ShardOfThread();
  {
    Reading reading(shard, in_force_);
    if (Policy* policy = reading.policy()) {
      const capture::Level level = policy->LevelOf(device, token, op, io);
      if (level == capture::Level::kOff) reading.CountFiltered();
      return level;
    }
  }
  const std::lock_guard lock(mu_);
  if (newest_ == nullptr || is_stopped_) return capture::Level::kFull;
  Advance();
  const capture::Level level = newest_->LevelOf(device, token, op, io);
  if (level == capture::Level::kOff) shard.word.fetch_add(kOneFiltered);
  return level;
}

capture::Level RecordFilter::LevelAt(std::string_view device, int64_t token,
                                     std::string_view op, Io io) {
  if (!is_on_.load(std::memory_order_relaxed)) return capture::Level::kFull;
  {
    const Reading reading(ShardOfThread(), in_force_);
    if (Policy* policy = reading.policy()) {
      return policy->LevelOf(device, token, op, io);
    }
  }
  const std::lock_guard lock(mu_);
  if (newest_ == nullptr) return capture::Level::kFull;
  Advance();
  return newest_->LevelOf(device, token, op, io);
}

bool RecordFilter::MayRecord(int64_t token, std::string_view op, Io io) {
  if (!is_on_.load(std::memory_order_relaxed)) return true;
  {
    const Reading reading(ShardOfThread(), in_force_);
    if (Policy* policy = reading.policy()) {
      return policy->MayRecord(token, op, io);
    }
  }
  const std::lock_guard lock(mu_);
  if (newest_ == nullptr) return true;
  Advance();
  return newest_->MayRecord(token, op, io);
}

uint64_t RecordFilter::SelectionAt(int64_t token) {
  if (!is_on_.load(std::memory_order_relaxed)) return kEverything;
  {
    const Reading reading(ShardOfThread(), in_force_);
    if (Policy* policy = reading.policy()) return policy->SelectionAt(token);
  }
  const std::lock_guard lock(mu_);
  if (newest_ == nullptr) return kEverything;
  Advance();
  return newest_->SelectionAt(token);
}

}  // namespace msitd::libmsit
