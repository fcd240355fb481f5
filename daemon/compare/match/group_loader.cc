// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_loader.h"

#include <chrono>
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

GroupLoader::GroupLoader(const GroupMatcher& matcher,
                         std::vector<size_t> groups, WorkObserver& observer,
                         OnLoaded on_loaded)
    : matcher_(matcher),
      groups_(std::move(groups)),
      observer_(observer),
      on_loaded_(std::move(on_loaded)) {
  if (groups_.size() > 1) {
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

absl::StatusOr<TensorGroup> GroupLoader::Load(size_t index,
                                              storage::StopCheck stop) {
  absl::StatusOr<TensorGroup> group = matcher_.Load(groups_[index], stop);
  if (group.ok()) on_loaded_(*group);
  return group;
}

absl::StatusOr<TensorGroup> GroupLoader::Next() {
  MSITD_CHECK(next_ < groups_.size());
  const size_t index = next_++;
  if (!ahead_.joinable()) {
    return Load(index, [this] { return observer_.Check(); });
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
  for (size_t i = 0; i < groups_.size(); ++i) {
    {
      const MutexLock lock(mu_);
      while (!loaded_.empty() && ahead_tensors_ >= kAheadTensorsMax &&
             !is_stopping()) {
        changed_.Wait(mu_);
      }
    }
    if (is_stopping()) return;
    absl::StatusOr<TensorGroup> group = Load(i, [&is_stopping] {
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
