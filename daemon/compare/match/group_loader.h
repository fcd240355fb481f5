// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/group_reading.h"
#include "daemon/compare/match/group_set.h"
#include "daemon/compare/work_observer.h"
#include "protos/status/mutex.h"

namespace msitd::compare {

// Loads groups of a matcher on a second thread while the caller has those
// before; on several threads if a run is far, so that a group does not cost a
// round trip.
//
// The observer is asked by the calling thread alone. Thread-compatible.
// Borrows the matcher, the groups and the observer.
class GroupLoader {
 public:
  // More groups than one are loaded ahead only as long as those that are have
  // fewer tensors.
  static constexpr size_t kAheadTensorsMax = size_t{1} << 14;
  // Of a run that is far: most groups that are loaded at a time. One at first,
  // one more after each group of which so many would be loaded ahead, and one
  // again after a larger group.
  static constexpr size_t kFarLoadsMax = 8;

  // Told of every group or window, in their order and one at a time, on the
  // thread that loaded it and before Next returns it; its pairs stay where they
  // are.
  using OnLoaded = std::function<void(const TensorGroup& group)>;

  // Gives out `groups` by token, then rank; each is one of the matcher.
  GroupLoader(const GroupMatcher& matcher, const GroupSet& groups,
              WorkObserver& observer, OnLoaded on_loaded);
  // Waits until the other threads have noticed: some thousand tensors.
  ~GroupLoader();
  GroupLoader(const GroupLoader&) = delete;
  GroupLoader& operator=(const GroupLoader&) = delete;

  // Returns the next group, or the next window of one; not called after the
  // last window of the last group.
  //
  // Errors: that of the observer; those of GroupMatcher::Load.
  absl::StatusOr<TensorGroup> Next();

 private:
  // A group that a thread has to load, with its place in the order.
  struct Turn {
    GroupKey key;
    uint64_t number = 0;
  };

  bool must_end() const { return is_stopping_.load(std::memory_order_relaxed); }

  void LoadAhead();
  // Waits until another group may be loaded. Nothing if there is none.
  std::optional<Turn> TakeTurn();
  bool MayLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Loads and delivers a group, when it is its turn.
  void LoadGroup(const Turn& turn);
  // Waits until the next window of the group whose turn it is may be loaded.
  void AwaitRoom();
  void NoteSize(const TensorGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GroupMatcher& matcher_;
  WorkObserver& observer_;
  const OnLoaded on_loaded_;

  // Relaxed: no other memory hangs on it.
  std::atomic<bool> is_stopping_{false};

  Mutex mu_;
  CondVar changed_;
  GroupCursor groups_ ABSL_GUARDED_BY(mu_);
  // Of the calling thread, if there is no other.
  std::optional<GroupReading> reading_;
  uint64_t turn_count_ ABSL_GUARDED_BY(mu_) = 0;
  // Turns whose groups have been told of.
  uint64_t told_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<absl::StatusOr<TensorGroup>> loaded_ ABSL_GUARDED_BY(mu_);
  size_t ahead_tensors_ ABSL_GUARDED_BY(mu_) = 0;
  size_t loads_max_ ABSL_GUARDED_BY(mu_) = 1;

  std::vector<std::thread> ahead_;
};

}  // namespace msitd::compare
