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

// Loads groups of a matcher ahead of the caller.
//
// Without this, each comparison would wait while the next group is read from
// the index. One additional thread therefore loads the next groups while the
// caller compares the current one. If a run is remote (GroupMatcher::is_far),
// several threads load, because otherwise each group would wait for its own
// round trips. Groups differ in size from a few tensors to more than 100,000.
// The number of groups ahead is therefore limited by their number of tensors,
// and several threads load only while groups are small. The cost is memory for
// the tensors of these groups.
//
// Only the calling thread calls the observer. Thread-compatible. Borrows the
// matcher, the groups and the observer.
class GroupLoader {
 public:
  // Groups are loaded ahead while the loaded ones have fewer tensors than this.
  // At least one group is always loaded ahead, however large it is.
  static constexpr size_t kAheadTensorsMax = size_t{1} << 14;
  // Maximum number of groups that are loaded at a time if a run is remote. The
  // number starts at 1. It grows by 1 after each small group and returns to 1
  // after a larger one. A group is small if kFarLoadsMax groups of its size
  // have at most kAheadTensorsMax tensors.
  static constexpr size_t kFarLoadsMax = 8;

  // Called for each group or window, in order and one at a time, on the thread
  // that loaded it, before Next() returns it. Pointers to its pairs remain
  // valid afterwards.
  using OnLoaded = std::function<void(const TensorGroup& group)>;

  // Returns `groups`, which are groups of the matcher, by token, then rank.
  GroupLoader(const GroupMatcher& matcher, const GroupSet& groups,
              WorkObserver& observer, OnLoaded on_loaded);
  // Waits until the other threads have stopped. They check this every few
  // thousand tensors.
  ~GroupLoader();
  GroupLoader(const GroupLoader&) = delete;
  GroupLoader& operator=(const GroupLoader&) = delete;

  // Returns the next group or the next window of a group. Must not be called
  // after the last window of the last group.
  //
  // Errors: that of the observer; those of GroupMatcher::Load.
  absl::StatusOr<TensorGroup> Next();

 private:
  // A group that a thread has to load, with its position in the order.
  struct Turn {
    GroupKey key;
    uint64_t number = 0;
  };

  bool must_end() const { return is_stopping_.load(std::memory_order_relaxed); }

  void LoadAhead();
  // Waits until another group may be loaded. Returns nothing if there are no
  // more groups or the loader stops.
  std::optional<Turn> TakeTurn();
  bool MayLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Loads a group, waits for its turn and delivers it.
  void LoadGroup(const Turn& turn);
  // Waits until the caller has received all loaded groups, before the next
  // window is loaded.
  void AwaitRoom();
  void NoteSize(const TensorGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GroupMatcher& matcher_;
  WorkObserver& observer_;
  const OnLoaded on_loaded_;

  // Accesses are relaxed, because the flag does not publish other memory.
  std::atomic<bool> is_stopping_{false};

  Mutex mu_;
  CondVar changed_;
  GroupCursor groups_ ABSL_GUARDED_BY(mu_);
  // The current group of the calling thread, if there are no other threads.
  std::optional<GroupReading> reading_;
  uint64_t turn_count_ ABSL_GUARDED_BY(mu_) = 0;
  // Number of turns whose groups were passed to `on_loaded_`.
  uint64_t told_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<absl::StatusOr<TensorGroup>> loaded_ ABSL_GUARDED_BY(mu_);
  size_t ahead_tensors_ ABSL_GUARDED_BY(mu_) = 0;
  size_t loads_max_ ABSL_GUARDED_BY(mu_) = 1;

  std::vector<std::thread> ahead_;
};

}  // namespace msitd::compare
