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
// Every user holds a Use; `gate->` makes one for the rest of the statement. A
// reference into the index must not outlive the statement that got it, unless
// its holder has all locks that callers of Reopen hold. After a Reopen that
// failed, what the index keeps in memory can still be read; everything else is
// UNAVAILABLE.
//
// Making a Use may wait for Reopen, so its maker holds no lock that `open` or
// `finish` takes. A lock that every caller of Reopen holds already does no
// harm.
//
// Thread-safe.
class IndexGate {
 public:
  // How long Reopen waits for the users of the index.
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

  // Wraps `scan` of `run`, which was made during the same Use. The returned
  // scan fails with UNAVAILABLE once the index is reopened, and with NOT_FOUND
  // (RUN_NOT_FOUND) if the run was deleted since and what the scan needs has
  // gone. The gate outlives it.
  std::unique_ptr<TensorScan> Hold(std::unique_ptr<TensorScan> scan, RunId run);

  // Waits until nobody uses the index and ends it. Then calls `open` to make
  // the next one, and `finish`, which may use that one, to complete it before
  // others do. If either fails the index stays ended, and the next call tries
  // again.
  //
  // Errors: UNAVAILABLE if the index stays in use for longer than kDrainMax;
  // those of `open` and `finish`.
  absl::Status Reopen(
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<ChunkIndex>>()> open,
      absl::FunctionRef<absl::Status()> finish) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class HeldScan;

  void Enter() ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);
  // Closes the gate; true once nobody is behind it.
  bool Close() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends what scans hold, then the database.
  void End();

  // Changes only while the gate is closed.
  std::unique_ptr<ChunkIndex> index_;

  Mutex mu_;
  CondVar changed_;
  int use_count_ ABSL_GUARDED_BY(mu_) = 0;
  // Closed for all but this thread.
  std::thread::id owner_ ABSL_GUARDED_BY(mu_);
  std::set<HeldScan*> scans_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
