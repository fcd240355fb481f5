// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
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

// The index of a store, which may be ended and opened anew while it is used.
//
// Whoever uses it holds a Use, which `gate->` makes for the rest of the
// statement. Nothing that a statement got from the index by reference outlives
// it, but for what the holder of all locks that Reopen asks for has. Where the
// index could not be opened again, what is in its memory is still there, and
// all else is UNAVAILABLE.
//
// To make a Use may wait for Reopen: whoever does so holds no lock that `open`
// or `finish` takes. One that is held whenever Reopen is called does no harm.
//
// Thread-safe.
class IndexGate {
 public:
  // How long Reopen waits for those who use the index.
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
  // For those whom Reopen waits for, or who call it.
  ChunkIndex& get() { return *index_; }

  // Wraps `scan` of `run`, made by the same Use, which ends with UNAVAILABLE if
  // the index is reopened. What it cannot find of a run that was deleted since
  // is NOT_FOUND with RUN_NOT_FOUND. It must end before the gate.
  std::unique_ptr<TensorScan> Hold(std::unique_ptr<TensorScan> scan, RunId run);

  // Ends the index once nobody uses it, then has `open` make the next one and
  // `finish` make it complete before others use it: that may use it. If either
  // fails the index stays ended, and the next call tries again.
  //
  // Errors: UNAVAILABLE if it is in use for longer than kDrainMax; those of
  // both.
  absl::Status Reopen(
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<ChunkIndex>>()> open,
      absl::FunctionRef<absl::Status()> finish) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class HeldScan;

  void Enter() ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);
  // Closes the gate; true once nobody is behind it.
  bool Close() ABSL_LOCKS_EXCLUDED(mu_);
  // Lets go of what scans hold, and of the database.
  void End();

  // Changes behind the closed gate alone.
  std::unique_ptr<ChunkIndex> index_;

  Mutex mu_;
  CondVar changed_;
  int use_count_ ABSL_GUARDED_BY(mu_) = 0;
  // Closed for all but this thread.
  std::thread::id owner_ ABSL_GUARDED_BY(mu_);
  std::set<HeldScan*> scans_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
