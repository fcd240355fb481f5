// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "daemon/compare/measure/pair_reader.h"
#include "daemon/compare/measure/pair_task.h"
#include "daemon/compare/work_observer.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Measures pairs on the calling thread and on a second thread, while the store
// reads the bytes of later pairs. Returns the results in order.
//
// To measure a pair, its bytes are read and then passed to the metric kernels.
// If pairs were handled one by one, the disk would wait for the kernels and the
// kernels for the disk. One read request for each pair would be slow for the
// many tensors of a few KiB. A thread for each pair would take more memory, and
// several comparisons can run at a time.
//
// Pairs are therefore grouped into windows. For each window, one batch for each
// run reads the bytes of all pairs whose parts are known, and another batch
// reads samples if the reader of the run can read these ahead. Each thread then
// claims a few pairs at a time. The cost is memory for up to kWindowsMax
// windows, and code to keep the order.
//
// The second thread starts when two pairs are waiting. If the system cannot
// create it, the calling thread measures all pairs. The second thread never
// calls the observer. The calling thread reports the bytes that the second
// thread has read.
//
// Thread-compatible, except for Add, which is thread-safe. Borrows the runs and
// the observer.
class PairMeasurer {
 public:
  // Maximum number of windows whose bytes are in memory or whose results were
  // not returned yet. Each window has up to two batches for each run.
  static constexpr size_t kWindowsMax = 3;
  // Maximum bytes, counting both sides, of the pairs of a window and of the
  // pairs that a thread claims at a time. A single pair may exceed them. A
  // batch may be larger than a window: it has room for gaps between the parts,
  // and for two full parts.
  static constexpr uint64_t kWindowBytesMax = uint64_t{8} << 20;
  static constexpr uint64_t kClaimBytesMax = uint64_t{256} << 10;
  static constexpr size_t kWindowPairsMax = storage::kBatchPartsMax / 2;
  static constexpr size_t kClaimPairsMax = 64;

  // Measures a pair. It is called on both threads, each with its own reader and
  // observer. `ahead` has the parts of the shards of both sides, or nothing if
  // they are not read ahead.
  using Measure = std::function<absl::StatusOr<PairMeasurement>(
      const PairTask& task, const PairAhead& ahead, PairReader& reader,
      WorkObserver& observer)>;

  PairMeasurer(storage::RunReader& target, storage::RunReader& golden,
               WorkObserver& observer, Measure measure);
  ~PairMeasurer() { Stop(); }
  PairMeasurer(const PairMeasurer&) = delete;
  PairMeasurer& operator=(const PairMeasurer&) = delete;

  // Queues pairs; Next() returns their measurements in this order. A pair must
  // live until Next() has returned its measurement, or until Stop() returns.
  // Thread-safe.
  void Add(std::span<const PairTask> tasks);

  // Waits for and returns the measurement of the next pair.
  //
  // Errors: CANCELLED if the observer ends the comparison; those of Measure.
  absl::StatusOr<PairMeasurement> Next();

  // Stops the second thread, which completes or cancels the pairs that it has
  // claimed. Waits for the thread and for all reads. After that, Measure is not
  // called any more, and pairs that are added are ignored.
  void Stop();

 private:
  class AheadObserver;

  using Result = std::optional<absl::StatusOr<PairMeasurement>>;

  // The parts or samples of one run that are read ahead for a window.
  template <typename T>
  struct ReadAhead {
    std::vector<T> wanted;
    // The number of its first entry in the batch, for each pair. kNotAhead if
    // the pair is not read ahead.
    std::vector<size_t> firsts;
    AlignedBuffer buffer;
    std::unique_ptr<storage::PartBatch> batch;

    void BeginWindow();
    void BeginPair() { firsts.push_back(wanted.size()); }
    // Returns whether the batch lacks some entries of `wanted`.
    bool IsShort() const;
    // Removes the entries of the last pair from `wanted`.
    void ShedLast();
    void PopLast() { firsts.pop_back(); }
    PartsAhead Ahead(size_t pair) const;
  };
  struct WindowSide {
    ReadAhead<storage::PartInfo> parts;
    ReadAhead<storage::SamplePart> samples;

    void BeginPair();
    bool IsShort() const { return parts.IsShort() || samples.IsShort(); }
    void ShedLast();
    void PopLast();
    void BeginToRead(storage::RunReader& run);
    void Drop();
    PartsAhead Ahead(size_t pair) const;
  };
  struct Window {
    std::vector<PairTask> tasks;
    WindowSide target;
    WindowSide golden;
    // A result is written by the thread that claimed the pair. It may be read
    // after `is_measured` was set.
    std::vector<Result> results;
    std::vector<bool> is_measured;
    size_t claimed = 0;
    size_t taken = 0;
  };
  // Consecutive pairs of a window that one thread measures.
  struct Claim {
    Window* window = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };

  // Returns whether there are pairs to group into a window, or to measure.
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayPlan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Claim ClaimPairs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fills and starts a window, or measures a claim, if possible.
  void Work(PairReader& reader, WorkObserver& observer)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Moves the first waiting pairs to a window.
  std::unique_ptr<Window> FillWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts to read the pairs of a window. Returns the pairs that do not fit
  // into the batches, in reverse order.
  std::vector<PairTask> BeginToRead(Window& window);
  void MeasureClaim(const Claim& claim, PairReader& reader,
                    WorkObserver& observer);
  Result TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WorkAhead();

  storage::RunReader& target_;
  storage::RunReader& golden_;
  WorkObserver& observer_;
  const Measure measure_;
  PairReader reader_;
  PairReader ahead_reader_;  // For the second thread.

  // Accesses are relaxed, because these values do not publish other memory.
  std::atomic<bool> is_stopping_{false};
  // Bytes that the second thread has read and that are not reported yet.
  std::atomic<uint64_t> ahead_bytes_{0};

  Mutex mu_;
  CondVar changed_;
  std::deque<PairTask> waiting_ ABSL_GUARDED_BY(mu_);
  uint64_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_planning_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::unique_ptr<Window>> windows_ ABSL_GUARDED_BY(mu_);
  // Completed windows, which are kept for reuse of their memory.
  std::vector<std::unique_ptr<Window>> spares_ ABSL_GUARDED_BY(mu_);
  std::thread ahead_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::compare
