// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/comparison_observer.h"
#include "daemon/compare/matcher.h"
#include "protos/status/mutex.h"

namespace msitd::compare {

// Loads groups of a matcher, each of them on a second thread while the caller
// has the one before. The first one is loaded by the caller.
//
// The observer is asked by the calling thread alone. Thread-compatible.
// Borrows the matcher and the observer.
class GroupLoader {
 public:
  // `groups` are numbers of the matcher, in the order in which they are wanted.
  GroupLoader(const TensorMatcher& matcher, std::vector<size_t> groups,
              ComparisonObserver& observer);
  // Waits until the second thread has noticed: some thousand tensors.
  ~GroupLoader();
  GroupLoader(const GroupLoader&) = delete;
  GroupLoader& operator=(const GroupLoader&) = delete;

  // Returns the next one; not called more often than there are groups.
  //
  // Errors: CANCELLED once the observer says so; those of TensorMatcher::Load.
  absl::StatusOr<TensorGroup> Next();

 private:
  using Result = std::optional<absl::StatusOr<TensorGroup>>;

  void LoadAhead();

  const TensorMatcher& matcher_;
  const std::vector<size_t> groups_;
  ComparisonObserver& observer_;
  size_t next_ = 0;

  // Relaxed: no other memory hangs on it.
  std::atomic<bool> is_stopping_{false};

  Mutex mu_;
  CondVar changed_;
  Result loaded_ ABSL_GUARDED_BY(mu_);

  std::thread ahead_;
};

}  // namespace msitd::compare
