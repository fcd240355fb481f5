// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/comparison_observer.h"
#include "daemon/compare/matcher.h"
#include "daemon/compare/pair_reader.h"
#include "protos/status/mutex.h"
#include "storage/chunk_store.h"

namespace msitd::compare {

// Measures pairs on the calling thread and, ahead of it, on one more, so that
// the disk works while a CPU does. The results come in order.
//
// The second thread begins with the first pair that another one follows. It
// never calls the observer: what it read is reported by the calling thread.
//
// Thread-compatible. Borrows the store and the observer.
class PairMeasurer {
 public:
  // How many measured pairs wait at most for those before them.
  static constexpr size_t kAheadMax = 8;

  // Called on either thread, each with a reader and an observer of its own.
  using Measure = std::function<absl::StatusOr<PairMeasurement>(
      const TensorPair& pair, PairReader& reader,
      ComparisonObserver& observer)>;

  PairMeasurer(storage::ChunkStore& store, ComparisonObserver& observer,
               Measure measure);
  ~PairMeasurer() { Stop(); }
  PairMeasurer(const PairMeasurer&) = delete;
  PairMeasurer& operator=(const PairMeasurer&) = delete;

  // Says what Next will be asked for, in this order. The pairs live until the
  // last of them was taken, or until Stop. All of the call before were taken.
  void Start(std::vector<const TensorPair*> pairs);

  // Returns the measurement of the next pair.
  //
  // Errors: CANCELLED once the observer says so; those of Measure.
  absl::StatusOr<PairMeasurement> Next();

  // Ends the second thread; waits until it has the part that it reads. Nothing
  // is called after that.
  void Stop();

 private:
  class AheadObserver;

  using Result = std::optional<absl::StatusOr<PairMeasurement>>;

  Result& ResultOf(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return results_[index % results_.size()];
  }
  // Claims a pair below `end`; nothing if all are claimed.
  std::optional<size_t> Claim(size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Lets the second thread have the pairs behind `index`.
  void OpenWindow(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MeasureOn(size_t index, PairReader& reader,
                 ComparisonObserver& observer);
  void WorkAhead();

  ComparisonObserver& observer_;
  const Measure measure_;
  PairReader reader_;
  PairReader ahead_reader_;  // Of the second thread.
  size_t next_ = 0;

  // Relaxed: no other memory hangs on them.
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> ahead_bytes_{0};  // Read, and not yet reported.

  Mutex mu_;
  CondVar changed_;
  std::vector<const TensorPair*> pairs_ ABSL_GUARDED_BY(mu_);
  // Of the pair that is asked for next, and of those ahead of it.
  std::array<Result, 1 + kAheadMax> results_ ABSL_GUARDED_BY(mu_);
  size_t claimed_ ABSL_GUARDED_BY(mu_) = 0;
  // The second thread claims below this.
  size_t window_end_ ABSL_GUARDED_BY(mu_) = 0;

  std::thread ahead_;
};

}  // namespace msitd::compare
