// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_loader.h"

#include <chrono>
#include <optional>
#include <utility>

#include "protos/base/check.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::compare {

namespace {

size_t TensorCount(const TensorGroup& group) {
  return group.golden.size() + group.target.size();
}

}  // namespace

GroupLoader::GroupLoader(const GroupMatcher& matcher, const GroupSet& groups,
                         WorkObserver& observer, OnLoaded on_loaded)
    : matcher_(matcher),
      groups_(groups),
      observer_(observer),
      on_loaded_(std::move(on_loaded)) {
  if (groups.count() > 1) {
    ahead_ = StartSpareThread("group-ahead", [this] { LoadAhead(); });
  }
}

GroupLoader::~GroupLoader() {
  if (!ahead_.joinable()) return;
  {
    const MutexLock lock(mu_);
    is_stopping_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  ahead_.join();
}

absl::StatusOr<TensorGroup> GroupLoader::Load(const GroupKey& key,
                                              storage::StopCheck stop) {
  absl::StatusOr<TensorGroup> group = matcher_.Load(key, stop);
  if (group.ok()) on_loaded_(*group);
  return group;
}

absl::StatusOr<TensorGroup> GroupLoader::Next() {
  if (!ahead_.joinable()) {
    const std::optional<GroupKey> key = groups_.Next();
    MSITD_CHECK(key.has_value());
    return Load(*key, [this] { return observer_.Check(); });
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

void GroupLoader::LoadAhead() {
  const auto is_stopping = [this] {
    return is_stopping_.load(std::memory_order_relaxed);
  };
  while (const std::optional<GroupKey> key = groups_.Next()) {
    {
      const MutexLock lock(mu_);
      while (!loaded_.empty() && ahead_tensors_ >= kAheadTensorsMax &&
             !is_stopping()) {
        changed_.Wait(mu_);
      }
    }
    if (is_stopping()) return;
    absl::StatusOr<TensorGroup> group = Load(*key, [&is_stopping] {
      return is_stopping() ? absl::CancelledError("cancelled")
                           : absl::OkStatus();
    });
    const MutexLock lock(mu_);
    if (group.ok()) ahead_tensors_ += TensorCount(*group);
    loaded_.push_back(std::move(group));
    changed_.NotifyAll();
  }
}

}  // namespace msitd::compare
