// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"

namespace msitd::compare {

// The current state of a comparison. Every change increases `version`.
struct ComparisonView {
  v1::Comparison comparison;
  uint64_t version = 0;
};

// The state of a comparison as its readers see it, the readers themselves, and
// those who wait for a change. Thread-safe.
class PublishedComparison {
 public:
  explicit PublishedComparison(v1::Comparison comparison)
      : shown_(std::move(comparison)) {}
  PublishedComparison(const PublishedComparison&) = delete;
  PublishedComparison& operator=(const PublishedComparison&) = delete;

  ComparisonView View();

  // Makes `comparison` visible, then wakes the waiters. `ended`: this is its
  // final state.
  void Show(const v1::Comparison& comparison, bool ended);
  // Wakes the waiters, as a change does.
  void Wake();

  // Waits for the end. Returns false if the comparison has not ended at
  // `deadline`.
  bool AwaitEnd(std::chrono::steady_clock::time_point deadline);

  // True once the end is stored, so that the job is no longer needed.
  bool IsStored();
  void SetStored();

  // True once the deletion of the comparison has begun. Its end must not become
  // visible after that.
  bool IsDeleted();
  void SetDeleted(bool deleted);

  // AddReader and RemoveReader enclose the time in which the rows are read.
  // NoteRead reports a single read.
  void AddReader();
  void RemoveReader();
  void NoteRead();
  // True if there has been no reader for `grace`.
  bool IsUnreadFor(std::chrono::milliseconds grace);

  // Calls `wake` once when the version of View is above `version`, or when the
  // comparison has ended. If that is already so, calls it immediately and
  // returns 0. Otherwise, calls it later on any thread and returns a number for
  // RemoveWaiter.
  uint64_t AddWaiter(uint64_t version, absl::AnyInvocable<void()> wake);

  // Returns true if `wake` will never be called, false if it was or will be
  // called.
  bool RemoveWaiter(uint64_t waiter);

 private:
  using Clock = std::chrono::steady_clock;

  Mutex mu_;
  CondVar end_;
  v1::Comparison shown_ ABSL_GUARDED_BY(mu_);
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 1;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool stored_ ABSL_GUARDED_BY(mu_) = false;
  bool is_deleted_ ABSL_GUARDED_BY(mu_) = false;
  int reader_count_ ABSL_GUARDED_BY(mu_) = 0;
  Clock::time_point read_time_ ABSL_GUARDED_BY(mu_) = Clock::now();
  uint64_t last_waiter_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, absl::AnyInvocable<void()>> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::compare
