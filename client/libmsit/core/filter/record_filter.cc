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

// Returns whether a rule was added.
bool Add(const capture::RuleBits& more, capture::RuleBits& rules) {
  bool is_new = false;
  for (size_t i = 0; i < more.size(); ++i) {
    is_new = is_new || (more[i] & ~rules[i]) != 0;
    rules[i] |= more[i];
  }
  return is_new;
}

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

const RecordFilter::Requested& RecordFilter::Policy::RequestedAt(
    int64_t token) const {
  static constexpr Requested kNone;
  if (requested.empty()) return kNone;
  const auto found =
      std::ranges::lower_bound(requested, token, {}, &Requested::token);
  return found == requested.end() || found->token != token ? kNone : *found;
}

capture::Level RecordFilter::Policy::LevelOf(std::string_view device,
                                             int64_t token, std::string_view op,
                                             Io io) const {
  const capture::RuleBits* known = rules->cache.Find(op);
  const capture::RuleBits& by_request = RequestedAt(token).rules;
  const capture::Schedule& schedule = *rules->schedule;
  return known == nullptr
             ? schedule.LevelOf(device, token, op, io, by_request)
             : schedule.LevelOf(device, token, *known, io, by_request);
}

bool RecordFilter::Policy::MayRecord(int64_t token, std::string_view op,
                                     Io io) const {
  const capture::RuleBits* known = rules->cache.Find(op);
  const capture::RuleBits& by_request = RequestedAt(token).rules;
  const capture::Schedule& schedule = *rules->schedule;
  return known == nullptr ? schedule.MayRecord(token, op, io, by_request)
                          : schedule.MayRecord(token, *known, io, by_request);
}

uint64_t RecordFilter::Policy::SelectionAt(int64_t token) const {
  return uint64_t{std::max(number, RequestedAt(token).number)} << 32 |
         rules->schedule->SpanOf(token);
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

bool RecordFilter::KeepRequest(int64_t token, std::string_view id) {
  if (!requests_[token].emplace(id).second) return false;
  ++request_count_;
  while (requests_.size() > kRequestTokensMax ||
         (request_count_ > kRequestsMax && requests_.size() > 1)) {
    request_count_ -= requests_.begin()->second.size();
    requests_.erase(requests_.begin());
  }
  return true;
}

std::vector<RecordFilter::Requested> RecordFilter::RequestedOf(
    const capture::Schedule& schedule) {
  std::vector<Requested> out;
  if (!schedule.has_requests()) return out;
  for (const auto& [token, ids] : requests_) {
    Requested requested{.token = token};
    for (const std::string& id : ids) {
      Add(schedule.RulesOfRequest(id), requested.rules);
    }
    if (requested.rules == capture::RuleBits()) continue;
    requested.number = ++policy_count_;
    out.push_back(requested);
  }
  return out;
}

void RecordFilter::Set(std::unique_ptr<const capture::Schedule> schedule) {
  const std::lock_guard lock(mu_);
  std::unique_ptr<Policy> policy;
  if (schedule != nullptr) {
    policy = std::make_unique<Policy>();
    policy->number = ++policy_count_;
    policy->requested = RequestedOf(*schedule);
    policy->rules = std::make_shared<Rules>(std::move(schedule));
  }
  if (!is_stopped_) Replace(std::move(policy));
}

void RecordFilter::AddRequest(int64_t token, std::string_view id) {
  const std::lock_guard lock(mu_);
  if (is_stopped_ || !KeepRequest(token, id) || newest_ == nullptr) return;
  Requested changed = newest_->RequestedAt(token);
  changed.token = token;
  if (!Add(newest_->rules->schedule->RulesOfRequest(id), changed.rules)) return;
  changed.number = ++policy_count_;
  auto policy = std::make_unique<Policy>(*newest_);
  std::vector<Requested>& all = policy->requested;
  const auto place =
      std::ranges::lower_bound(all, token, {}, &Requested::token);
  if (place != all.end() && place->token == token) {
    *place = changed;
  } else {
    all.insert(place, changed);
    if (all.size() > kRequestTokensMax) all.erase(all.begin());
  }
  Replace(std::move(policy));
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
