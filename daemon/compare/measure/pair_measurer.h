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

// Measures pairs on the calling thread and, ahead of it, on one more, while the
// store reads the bytes of those behind them. The results come in order.
//
// Pairs are taken window by window. For each window, one batch of either run
// reads the pairs whose parts are known, another one their samples where the
// run reads these ahead, and each thread claims a few pairs at a time.
//
// The second thread starts once two pairs wait. It never calls the observer:
// the calling thread reports what the second one has read.
//
// Thread-compatible, but for Add. Borrows the runs and the observer.
class PairMeasurer {
 public:
  // Windows whose bytes are in memory, or whose results wait to be taken; each
  // holds two batches of either run.
  static constexpr size_t kWindowsMax = 3;
  // Bytes of both sides of a window's pairs, and of those that are claimed at a
  // time; one pair alone may have more. A batch has room for what lies between
  // them, and for two parts.
  static constexpr uint64_t kWindowBytesMax = uint64_t{8} << 20;
  static constexpr uint64_t kClaimBytesMax = uint64_t{256} << 10;
  static constexpr size_t kWindowPairsMax = storage::kBatchPartsMax / 2;
  static constexpr size_t kClaimPairsMax = 64;

  // Called on either thread, each with a reader and an observer of its own.
  // `ahead` has the parts of the shards of both sides, if it has any.
  using Measure = std::function<absl::StatusOr<PairMeasurement>(
      const PairTask& task, const PairAhead& ahead, PairReader& reader,
      WorkObserver& observer)>;

  PairMeasurer(storage::RunReader& target, storage::RunReader& golden,
               WorkObserver& observer, Measure measure);
  ~PairMeasurer() { Stop(); }
  PairMeasurer(const PairMeasurer&) = delete;
  PairMeasurer& operator=(const PairMeasurer&) = delete;

  // Queues pairs: Next returns their measurements in this order. A pair lives
  // until it was taken, or until Stop. Thread-safe.
  void Add(std::span<const PairTask> tasks);

  // Returns the measurement of the next pair.
  //
  // Errors: CANCELLED once the observer says so; those of Measure.
  absl::StatusOr<PairMeasurement> Next();

  // Ends the second thread, which finishes or cancels the pairs that it has
  // claimed, and waits for it and for all reads. Nothing is called after that,
  // and pairs that are added are ignored.
  void Stop();

 private:
  class AheadObserver;

  using Result = std::optional<absl::StatusOr<PairMeasurement>>;

  // Parts or samples of one run that are read ahead for a window.
  template <typename T>
  struct ReadAhead {
    std::vector<T> wanted;
    // For each pair: its first one in the batch; kNotAhead if it has none.
    std::vector<size_t> firsts;
    AlignedBuffer buffer;
    std::unique_ptr<storage::PartBatch> batch;

    void BeginWindow();
    void BeginPair() { firsts.push_back(wanted.size()); }
    // True if the batch does not have all that is wanted.
    bool IsShort() const;
    // Leaves out those of the last pair.
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
    // A result is written by the thread that claimed the pair, and read once
    // the pair is measured.
    std::vector<Result> results;
    std::vector<bool> is_measured;
    size_t claimed = 0;
    size_t taken = 0;
  };
  // Pairs of a window.
  struct Claim {
    Window* window = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };

  // There is something to do: pairs to plan for, or to measure.
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayPlan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Claim ClaimPairs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Plans a window, or measures a claim, if there is one.
  void Work(PairReader& reader, WorkObserver& observer)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Moves the first pairs that wait to a window.
  std::unique_ptr<Window> FillWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins to read the pairs of a window. Returns those that do not fit, the
  // last one first.
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
  PairReader ahead_reader_;  // Of the second thread.

  // Relaxed: they publish no other memory.
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> ahead_bytes_{0};  // Read, and not yet reported.

  Mutex mu_;
  CondVar changed_;
  std::deque<PairTask> waiting_ ABSL_GUARDED_BY(mu_);
  uint64_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_planning_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::unique_ptr<Window>> windows_ ABSL_GUARDED_BY(mu_);
  // Windows that were used, kept for their memory.
  std::vector<std::unique_ptr<Window>> spares_ ABSL_GUARDED_BY(mu_);
  std::thread ahead_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::compare
