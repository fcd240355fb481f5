// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"
#include "storage/index/chunk_index.h"

namespace msitd::storage {

// Gives access to the index of a store, which can be closed and reopened while
// it is in use.
//
// Every user holds a Use; `gate->` creates one for the rest of the statement. A
// reference into the index must not outlive the statement that obtained it,
// unless its holder has all locks that callers of Reopen hold. If Reopen fails,
// in-memory state of the index remains readable; everything else returns
// UNAVAILABLE.
//
// Creating a Use may wait for Reopen, so the caller must not hold a lock that
// `open` or `finish` acquires. A lock that every caller of Reopen already holds
// is allowed.
//
// Thread-safe.
class IndexGate {
 public:
  // Maximum time that Reopen waits for users of the index.
  static constexpr std::chrono::seconds kDrainMax{10};

  explicit IndexGate(std::unique_ptr<ChunkIndex> index)
      : index_(std::move(index)) {}
  ~IndexGate();

  class Use {
   public:
    explicit Use(IndexGate& gate) : gate_(gate) { gate.Enter(); }
    ~Use() { gate_.Leave(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    ChunkIndex* operator->() const { return gate_.index_.get(); }

   private:
    IndexGate& gate_;
  };
  Use operator->() { return Use(*this); }
  // For code that holds a Use, and for callers of Reopen.
  ChunkIndex& get() { return *index_; }

  // Wraps `scan` of `run`, which must have been created during the same Use.
  // The returned scan fails with UNAVAILABLE after the index is reopened, and
  // with NOT_FOUND (RUN_NOT_FOUND) if the run was deleted and data that the
  // scan needs is no longer available. The gate must outlive it.
  std::unique_ptr<TensorScan> Hold(std::unique_ptr<TensorScan> scan, RunId run);

  // Waits until the index is unused and closes it. Then calls `open` to create
  // the new index, and `finish` to complete it before others can use it. If
  // either fails, the index stays closed, and the next call tries again.
  //
  // Errors: UNAVAILABLE if the index stays in use for longer than kDrainMax;
  // those of `open` and `finish`.
  absl::Status Reopen(
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<ChunkIndex>>()> open,
      absl::FunctionRef<absl::Status()> finish) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class HeldScan;

  // Set in `state_` while the gate is closed. The other bits count the users.
  static constexpr uint64_t kClosed = uint64_t{1} << 63;

  // Scans enter for each tensor, so an open gate takes no lock.
  void Enter() ABSL_LOCKS_EXCLUDED(mu_) {
    if ((state_.fetch_add(1, std::memory_order_acquire) & kClosed) != 0) {
      EnterClosed();
    }
  }
  void Leave() ABSL_LOCKS_EXCLUDED(mu_) {
    if (state_.fetch_sub(1, std::memory_order_release) == kClosed + 1) {
      NotifyLast();
    }
  }
  // Completes Enter for a user that is already counted: waits, unless the
  // thread is the owner.
  void EnterClosed() ABSL_LOCKS_EXCLUDED(mu_);
  void NotifyLast() ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t use_count() const {
    return state_.load(std::memory_order_acquire) & ~kClosed;
  }
  // Closes the gate. Returns true when no user remains.
  bool Close() ABSL_LOCKS_EXCLUDED(mu_);
  // Releases the resources of scans, then closes the database.
  void End();

  // Changes only while the gate is closed.
  std::unique_ptr<ChunkIndex> index_;

  Mutex mu_;
  CondVar changed_;
  // Close, which reads `index_` after the last user, acquires what Leave
  // releases, and Enter acquires the index that Reopen releases. kClosed
  // changes only under `mu_`.
  std::atomic<uint64_t> state_{0};
  // If set, the gate is closed for all threads except this one.
  std::thread::id owner_ ABSL_GUARDED_BY(mu_);
  std::set<HeldScan*> scans_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
