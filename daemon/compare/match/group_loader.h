// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/status/statusor.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/group_set.h"
#include "daemon/compare/work_observer.h"
#include "protos/status/mutex.h"

namespace msitd::compare {

// Loads groups of a matcher on a second thread while the caller has those
// before.
//
// The observer is asked by the calling thread alone. Thread-compatible.
// Borrows the matcher, the groups and the observer.
class GroupLoader {
 public:
  // More groups than one are loaded ahead only as long as those that are have
  // fewer tensors.
  static constexpr size_t kAheadTensorsMax = size_t{1} << 14;

  // Told of every group, in their order, on the thread that loaded it and
  // before Next returns it; its pairs stay where they are.
  using OnLoaded = std::function<void(const TensorGroup& group)>;

  // Gives out `groups` by token, then rank; each is one of the matcher.
  GroupLoader(const GroupMatcher& matcher, const GroupSet& groups,
              WorkObserver& observer, OnLoaded on_loaded);
  // Waits until the second thread has noticed: some thousand tensors.
  ~GroupLoader();
  GroupLoader(const GroupLoader&) = delete;
  GroupLoader& operator=(const GroupLoader&) = delete;

  // Returns the next one; not called more often than there are groups.
  //
  // Errors: that of the observer; those of GroupMatcher::Load.
  absl::StatusOr<TensorGroup> Next();

 private:
  absl::StatusOr<TensorGroup> Load(const GroupKey& key,
                                   storage::StopCheck stop);
  void LoadAhead();

  const GroupMatcher& matcher_;
  // Of the thread that loads.
  GroupCursor groups_;
  WorkObserver& observer_;
  const OnLoaded on_loaded_;

  // Relaxed: no other memory hangs on it.
  std::atomic<bool> is_stopping_{false};

  Mutex mu_;
  CondVar changed_;
  std::deque<absl::StatusOr<TensorGroup>> loaded_ ABSL_GUARDED_BY(mu_);
  size_t ahead_tensors_ ABSL_GUARDED_BY(mu_) = 0;

  std::thread ahead_;
};

}  // namespace msitd::compare
