// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_loader.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "daemon/compare/shard/assembly.h"
#include "protos/base/check.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::compare {

namespace {

size_t TensorCount(const TensorGroup& group) {
  return group.golden.size() + group.target.size();
}

// Returns the number of tensors and shards that are in memory.
size_t LoadedCount(const TensorGroup& group) {
  size_t out = 0;
  for (const auto* side : {&group.golden, &group.target}) {
    for (const LogicalTensor& tensor : *side) out += ShardsOf(tensor).size();
  }
  return out;
}

}  // namespace

GroupLoader::GroupLoader(const GroupMatcher& matcher, const GroupSet& groups,
                         WorkObserver& observer, OnLoaded on_loaded)
    : matcher_(matcher),
      observer_(observer),
      on_loaded_(std::move(on_loaded)),
      groups_(groups) {
  if (groups.count() <= 1) return;
  const size_t count =
      matcher.is_far() ? std::min(kFarLoadsMax, groups.count()) : 1;
  for (size_t i = 0; i < count; ++i) {
    std::thread thread =
        StartSpareThread("group-ahead", [this] { LoadAhead(); });
    if (!thread.joinable()) break;
    ahead_.push_back(std::move(thread));
  }
}

GroupLoader::~GroupLoader() {
  {
    const MutexLock lock(mu_);
    is_stopping_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  for (std::thread& thread : ahead_) thread.join();
}

absl::StatusOr<TensorGroup> GroupLoader::Next() {
  if (ahead_.empty()) {
    if (!reading_.has_value()) {
      const MutexLock lock(mu_);
      const std::optional<GroupKey> key = groups_.Next();
      MSITD_CHECK(key.has_value());
      reading_.emplace(matcher_, *key);
    }
    absl::StatusOr<TensorGroup> group =
        reading_->Next([this] { return observer_.Check(); });
    if (!group.ok()) return group;
    if (group->is_last_window) reading_.reset();
    on_loaded_(*group);
    return group;
  }
  while (true) {
    MSITD_RETURN_IF_ERROR(observer_.Check());
    const MutexLock lock(mu_);
    if (loaded_.empty()) {
      changed_.WaitUntil(mu_,
                         std::chrono::steady_clock::now() + kQuestionInterval);
    }
    if (!loaded_.empty()) {
      absl::StatusOr<TensorGroup> group = std::move(loaded_.front());
      loaded_.pop_front();
      if (group.ok()) ahead_tensors_ -= TensorCount(*group);
      changed_.NotifyAll();
      return group;
    }
  }
}

bool GroupLoader::MayLoad() const {
  const uint64_t loading_count = turn_count_ - told_count_;
  return loading_count < loads_max_ &&
         (ahead_tensors_ < kAheadTensorsMax ||
          (loading_count == 0 && loaded_.empty()));
}

void GroupLoader::NoteSize(const TensorGroup& group) {
  const bool is_small = group.too_large_run.empty() &&
                        LoadedCount(group) * kFarLoadsMax <= kAheadTensorsMax;
  loads_max_ = is_small ? std::min(loads_max_ + 1, kFarLoadsMax) : 1;
}

std::optional<GroupLoader::Turn> GroupLoader::TakeTurn() {
  const MutexLock lock(mu_);
  while (!MayLoad() && !must_end()) changed_.Wait(mu_);
  if (must_end()) return std::nullopt;
  const std::optional<GroupKey> key = groups_.Next();
  if (!key.has_value()) return std::nullopt;
  return Turn{*key, turn_count_++};
}

void GroupLoader::LoadAhead() {
  while (const std::optional<Turn> turn = TakeTurn()) LoadGroup(*turn);
}

void GroupLoader::LoadGroup(const Turn& turn) {
  GroupReading reading(matcher_, turn.key);
  for (bool is_over = false; !is_over;) {
    absl::StatusOr<TensorGroup> group = reading.Next([this] {
      return must_end() ? absl::CancelledError("cancelled") : absl::OkStatus();
    });
    {
      const MutexLock lock(mu_);
      while (told_count_ < turn.number) changed_.Wait(mu_);
    }
    // No other thread passes the wait above until told_count_ grows.
    if (group.ok()) on_loaded_(*group);
    is_over = !group.ok() || group->is_last_window;
    {
      const MutexLock lock(mu_);
      if (group.ok()) {
        ahead_tensors_ += TensorCount(*group);
        NoteSize(*group);
      }
      loaded_.push_back(std::move(group));
      if (is_over) ++told_count_;
      changed_.NotifyAll();
    }
    if (!is_over) AwaitRoom();
  }
}

void GroupLoader::AwaitRoom() {
  const MutexLock lock(mu_);
  while (!loaded_.empty() && !must_end()) changed_.Wait(mu_);
}

}  // namespace msitd::compare
