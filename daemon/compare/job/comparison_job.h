// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_observer.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"
#include "storage/face/attachments.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Rows go to the store, and become visible, this many at a time, or as many as
// there are once the interval has passed.
inline constexpr size_t kRowsPerBatch = 256;
inline constexpr std::chrono::milliseconds kPublishInterval{100};

// The document is stored at this interval at least; rows are durable with it.
inline constexpr std::chrono::seconds kDocumentInterval{1};

// The error of a comparison that the end of the daemon cut off, and of one that
// was cancelled because it followed its runs and nobody read its rows.
inline constexpr char kDaemonStopped[] = "the daemon stopped";
inline constexpr char kForsaken[] =
    "nobody reads its rows any more, and it is not detached";

// What the end of the daemon means for a comparison: kDaemonStopped.
absl::Status DaemonStopped();

// Makes the state of `comparison` FAILED because of `error`.
void SetFailed(const absl::Status& error, v1::Comparison& comparison);

// Returns the time of the system, in nanoseconds.
google::protobuf::Timestamp Now();

// Returns how many rows `comparison` has.
int64_t RowCount(const v1::Comparison& comparison);

// True if it is done, cancelled or failed.
bool HasEnded(const v1::Comparison& comparison);

// A comparison as it is now. `version` grows with every change of it.
struct ComparisonView {
  v1::Comparison comparison;
  uint64_t version = 0;
};

// One comparison from its creation to its end.
//
// Made by ComparisonJobs, which lends the store; shared by its table, by the
// thread that runs it and by whoever asks at the moment. Thread-safe, but for
// Run, HasNews and EndUnrun: one at a time, and nothing behind the end.
//
//   PENDING --Run--> RUNNING --Run--> DONE | CANCELLED | FAILED
//      \--EndUnrun-------\--EndUnrun-----^
class ComparisonJob final : private ComparisonObserver {
 public:
  // Why a comparison is to stop.
  enum class StopCause : int { kNone, kUser, kShutdown, kForsaken };

  ComparisonJob(storage::RunReaders& readers, storage::Comparisons& store,
                storage::Attachments& attachments, uint64_t id,
                v1::Comparison comparison, ComparisonPlan plan);

  uint64_t id() const { return id_; }

  bool follows() const { return plan_.follow; }
  const std::string& owner() const { return plan_.owner; }

  // Compares what there is to compare, and stores rows, counts and the end.
  // False if it follows runs that may grow: to be called again once HasNews.
  bool Run();

  // True if the runs have changed since Run. Blocks on reads of the store.
  bool HasNews() const { return engine_->HasNews(); }

  // Ends a comparison that will not be run, or not again.
  void EndUnrun(StopCause cause);

  // Asks Run to return soon. The first cause counts.
  void Stop(StopCause cause);
  bool is_stopping() const {
    return stop_cause_.load(std::memory_order_relaxed) != StopCause::kNone;
  }

  // True from the time that its deletion began: nobody is to see how it ends.
  bool IsDeleted();
  void SetDeleted(bool deleted);

  // Somebody reads the rows between these two, and read something just now.
  void AddReader();
  void RemoveReader();
  void NoteRead();

  // True if this follows its runs for readers, and for so long there was none.
  bool IsForsaken(std::chrono::milliseconds grace);

  // Stops it and removes it from the store; nothing of it is written later.
  //
  // Errors: those of the store.
  absl::Status Erase();

  ComparisonView View();

  // Returns false if the comparison has not ended at `deadline`.
  bool AwaitEnd(std::chrono::steady_clock::time_point deadline);

  // True once the store knows the end, so that the job is no longer needed.
  bool IsStored();

  // Calls `wake` once, from some thread, when View has a version above
  // `version`: at once, in this call, if it has already, and then returns 0;
  // else returns a number for RemoveWaiter.
  uint64_t AddWaiter(uint64_t version, absl::AnyInvocable<void()> wake);

  // Returns true if `wake` will never be called, false if it was or will be.
  bool RemoveWaiter(uint64_t waiter);

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status Check() override;
  bool is_over() const override { return is_stopping(); }
  void OnTotal(uint64_t tensor_count) override;
  void OnConflicts(uint64_t golden_count, uint64_t target_count) override;
  void OnNotRecorded(int64_t golden_count, int64_t target_count) override;
  void OnLosses(const RunLosses& golden, const RunLosses& target) override;
  void OnLeftOut(uint64_t golden_count, uint64_t target_count) override;
  void OnSilentRanks(const std::vector<Outlook::Silent>& golden,
                     const std::vector<Outlook::Silent>& target) override;
  void OnRanks(const storage::RunRanks& golden,
               const storage::RunRanks& target) override;
  void OnFirstAbsent(std::optional<int64_t> token) override;
  void OnRead(uint64_t bytes) override;
  void OnRequiredTolerances(const RequiredTolerances& tolerances) override;
  void OnIdleRules(const std::vector<std::string>& rules) override;
  void OnFindings(const Findings& findings) override;
  absl::Status OnRow(const v1::ComparisonRow& row, std::string bytes) override;

  // Sets whether the comparison is about a part of the runs.
  void UpdatePartial();
  // Sets whether something that is missing may precede the first divergence.
  void UpdateMayDivergeBefore();
  // Stores the rows so far, then makes them visible. The first error stays.
  absl::Status Publish();
  absl::Status PublishIfDue();
  absl::Status StoreRows();
  absl::Status StoreDocument();
  // Gives the plan the mapping that it is to have.
  absl::Status TakeMapping();
  // Has gradients paired by order if both runs are of a tool that needs it.
  absl::Status TakeBackwardOrder();
  void End(const absl::Status& status);
  // Makes what the running thread has visible, then tells the waiters.
  void Show(bool ended);
  void Wake();

  storage::RunReaders& readers_;
  storage::Comparisons& store_;
  storage::Attachments& attachments_;
  const uint64_t id_;
  // Does not change, but for its matching: the first Run gives it its mapping,
  // which nobody else looks at. So those that wait do not have theirs in
  // memory.
  ComparisonPlan plan_;

  // Relaxed: no other memory hangs on it.
  std::atomic<StopCause> stop_cause_{StopCause::kNone};

  // Of the running thread.
  std::optional<ComparisonEngine> engine_;
  v1::Comparison working_;
  int64_t golden_row_count_ = 0;
  std::optional<int64_t> first_absent_token_;
  std::vector<std::string> pending_rows_;
  absl::Status publish_status_;
  Clock::time_point publish_time_{};
  Clock::time_point document_time_{};

  // Held over writes of this comparison, so that none comes behind Erase.
  Mutex write_mu_;
  bool erased_ ABSL_GUARDED_BY(write_mu_) = false;

  Mutex mu_;
  bool is_deleted_ ABSL_GUARDED_BY(mu_) = false;
  CondVar end_;
  v1::Comparison shown_ ABSL_GUARDED_BY(mu_);
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 1;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool stored_ ABSL_GUARDED_BY(mu_) = false;
  int reader_count_ ABSL_GUARDED_BY(mu_) = 0;
  Clock::time_point read_time_ ABSL_GUARDED_BY(mu_) = Clock::now();
  uint64_t last_waiter_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, absl::AnyInvocable<void()>> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::compare
