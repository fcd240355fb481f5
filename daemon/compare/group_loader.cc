// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/group_loader.h"

#include <chrono>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/spare_thread.h"

namespace msitd::compare {

GroupLoader::GroupLoader(const TensorMatcher& matcher,
                         std::vector<size_t> groups,
                         ComparisonObserver& observer)
    : matcher_(matcher), groups_(std::move(groups)), observer_(observer) {
  if (groups_.size() > 1) {
    ahead_ = StartSpareThread([this] { LoadAhead(); });
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

absl::StatusOr<TensorGroup> GroupLoader::Next() {
  MSITD_CHECK(next_ < groups_.size());
  const size_t index = next_++;
  if (index == 0 || !ahead_.joinable()) {
    return matcher_.Load(groups_[index],
                         [this] { return observer_.IsCancelled(); });
  }
  while (!observer_.IsCancelled()) {
    const MutexLock lock(mu_);
    if (!loaded_.has_value()) {
      changed_.WaitUntil(mu_,
                         std::chrono::steady_clock::now() + kQuestionInterval);
    }
    if (loaded_.has_value()) {
      changed_.NotifyAll();
      return *std::exchange(loaded_, std::nullopt);
    }
  }
  return absl::CancelledError("cancelled");
}

void GroupLoader::LoadAhead() {
  const auto is_stopping = [this] {
    return is_stopping_.load(std::memory_order_relaxed);
  };
  for (size_t i = 1; i < groups_.size(); ++i) {
    {
      // One is ahead, and not a second one.
      const MutexLock lock(mu_);
      while (loaded_.has_value() && !is_stopping()) changed_.Wait(mu_);
    }
    if (is_stopping()) return;
    absl::StatusOr<TensorGroup> group = matcher_.Load(groups_[i], is_stopping);
    const MutexLock lock(mu_);
    loaded_ = std::move(group);
    changed_.NotifyAll();
  }
}

}  // namespace msitd::compare
