// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_observer.h"
#include "daemon/compare/job/comparison_writer.h"
#include "daemon/compare/job/published_comparison.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/face/attachments.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Rows are stored and become visible in batches of this many, or when the
// interval has passed, whichever is first.
inline constexpr size_t kRowsPerBatch = 256;
inline constexpr std::chrono::milliseconds kPublishInterval{100};

// Minimum time between two writes of the document while the comparison runs.
// Rows become durable with the document.
inline constexpr std::chrono::seconds kDocumentInterval{1};

// The error of a comparison that was running when the daemon stopped, and the
// error of one that was cancelled because it follows its runs and had no
// readers.
inline constexpr char kDaemonStopped[] = "the daemon stopped";
inline constexpr char kForsaken[] =
    "nobody reads its rows any more, and it is not detached";

// Returns the error of a comparison that was running when the daemon stopped:
// UNAVAILABLE with NOT_SERVING and kDaemonStopped.
absl::Status DaemonStopped();

// Sets the state of `comparison` to FAILED because of `error`.
void SetFailed(const absl::Status& error, v1::Comparison& comparison);

// Returns the system time.
google::protobuf::Timestamp Now();

// Returns the number of rows of `comparison`.
int64_t RowCount(const v1::Comparison& comparison);

// Returns true if the comparison is done, cancelled or failed.
bool HasEnded(const v1::Comparison& comparison);

// One comparison from its creation to its end: runs the engine, stores its
// rows, and publishes counts and state.
//
// The running thread works on a message of its own and publishes a copy after
// each batch of rows (PublishedComparison). Readers therefore never wait for
// reads of tensors, but see rows with a delay of about kPublishInterval. Counts
// never include rows that are not stored.
//
// Created by ComparisonJobs and shared with the threads that run or read the
// comparison. The store must outlive it. Thread-safe, except for Run, HasNews
// and EndUnrun. These must be called one at a time, and not after the end.
//
//   PENDING --Run--> RUNNING --Run--> DONE | CANCELLED | FAILED
//      \--EndUnrun-------\--EndUnrun-----^
class ComparisonJob final : private ComparisonObserver {
 public:
  // Why a comparison must stop.
  enum class StopCause : int { kNone, kUser, kShutdown, kForsaken };

  ComparisonJob(storage::RunReaders& readers, storage::Comparisons& store,
                storage::Attachments& attachments, uint64_t id,
                v1::Comparison comparison, ComparisonPlan plan);

  uint64_t id() const { return id_; }

  bool follows() const { return plan_.follow; }
  const std::string& owner() const { return plan_.owner; }

  // Compares everything that can be compared now, and stores rows, counts and
  // the end. Returns false if the comparison follows runs that may still grow.
  // It must then be called again once HasNews returns true.
  bool Run();

  // True if the runs have changed since the last Run. Blocks on the store.
  bool HasNews() const { return engine_->HasNews(); }

  // Ends a comparison that is not run, or not run again.
  void EndUnrun(StopCause cause);

  // Makes Run return soon. If called several times, the first cause applies.
  void Stop(StopCause cause);
  bool is_stopping() const {
    return stop_cause_.load(std::memory_order_relaxed) != StopCause::kNone;
  }

  // True if the comparison follows its runs, is not detached and has had no
  // reader for `grace`.
  bool IsForsaken(std::chrono::milliseconds grace);

  // Stops the comparison and removes it from the store. Nothing is written for
  // it after that.
  //
  // Errors: those of the store.
  absl::Status Erase();

  // The state that readers see, which is also what they wait for.
  PublishedComparison& published() { return published_; }

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status Check() override;
  bool is_over() const override { return is_stopping(); }
  v1::Comparison& header() override { return working_; }
  void OnRead(uint64_t bytes) override;
  absl::Status OnRow(const v1::ComparisonRow& row, std::string bytes) override;

  // Stores the pending rows, then makes them visible. The first error is kept
  // and returned from then on.
  absl::Status Publish();
  absl::Status PublishIfDue();
  absl::Status StoreRows();
  absl::Status StoreDocument();
  // Run for a comparison that judges the rows of another one.
  absl::Status JudgeRows();
  // Loads the mapping of the plan, if it has one.
  absl::Status TakeMapping();
  // Pairs gradients by order if msprobe recorded both runs.
  absl::Status TakeBackwardOrder();
  void End(const absl::Status& status);

  storage::RunReaders& readers_;
  storage::Comparisons& store_;
  storage::Attachments& attachments_;
  const uint64_t id_;
  // Constant, except for its matching: the first Run sets its mapping, which no
  // other thread reads. Comparisons in the queue therefore do not hold mappings
  // in memory.
  ComparisonPlan plan_;

  // Relaxed, because it does not publish other memory.
  std::atomic<StopCause> stop_cause_{StopCause::kNone};

  // Used only by the running thread.
  std::optional<ComparisonEngine> engine_;
  v1::Comparison working_;
  int64_t golden_row_count_ = 0;
  std::vector<std::string> pending_rows_;
  absl::Status publish_status_;
  Clock::time_point publish_time_{};
  Clock::time_point document_time_{};

  // Both are thread-safe.
  ComparisonWriter writer_;
  PublishedComparison published_;
};

}  // namespace msitd::compare
