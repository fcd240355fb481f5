// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_job.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/job/comparison_header.h"
#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/job/judged_rows.h"
#include "google/protobuf/util/time_util.h"
#include "protos/base/source_label.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

absl::StatusOr<bool> IsRunOfMsprobe(storage::RunReaders& readers,
                                    const storage::RunAddress& address,
                                    const storage::WaitCheck& wait) {
  MSITD_ASSIGN_OR_RETURN(const auto run, readers.OpenRunAt(address, wait));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, run->GetInfo());
  return IsFromMsprobe(info.spec.labels);
}

}  // namespace

google::protobuf::Timestamp Now() {
  const std::chrono::nanoseconds time =
      std::chrono::system_clock::now().time_since_epoch();
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(time.count());
}

int64_t RowCount(const v1::Comparison& comparison) {
  return comparison.pass_count() + comparison.fail_count() +
         comparison.unmatched_count() + comparison.skipped_count();
}

bool HasEnded(const v1::Comparison& comparison) {
  return comparison.state() == v1::Comparison::DONE ||
         comparison.state() == v1::Comparison::CANCELLED ||
         comparison.state() == v1::Comparison::FAILED;
}

ComparisonJob::ComparisonJob(storage::RunReaders& readers,
                             storage::Comparisons& store,
                             storage::Attachments& attachments, uint64_t id,
                             v1::Comparison comparison, ComparisonPlan plan)
    : readers_(readers),
      store_(store),
      attachments_(attachments),
      id_(id),
      plan_(std::move(plan)),
      working_(comparison),
      writer_(store, id),
      published_(std::move(comparison)) {}

bool ComparisonJob::Run() {
  absl::Status status;
  if (plan_.judged != nullptr) {
    status = JudgeRows();
    const absl::Status last = Publish();
    End(status.ok() ? last : status);
    return true;
  }
  if (!engine_.has_value()) {
    working_.set_state(v1::Comparison::RUNNING);
    status = StoreDocument();
    if (status.ok()) published_.Show(working_, /*ended=*/false);
    if (status.ok()) status = TakeMapping();
    if (status.ok()) status = TakeBackwardOrder();
    ComparisonObserver& self = *this;
    engine_.emplace(readers_, plan_, self);
  }
  if (status.ok()) status = engine_->Run();
  // If rows cannot be stored, Publish also removes them from the counts.
  const absl::Status last = Publish();
  if (status.ok() && last.ok() && engine_->waits()) return false;
  End(status.ok() ? last : status);
  return true;
}

absl::Status ComparisonJob::JudgeRows() {
  working_.set_state(v1::Comparison::RUNNING);
  MSITD_RETURN_IF_ERROR(StoreDocument());
  published_.Show(working_, /*ended=*/false);
  return JudgeStoredRows(store_, plan_, *this);
}

absl::Status ComparisonJob::TakeMapping() {
  if (!plan_.mapping.has_value()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(
      LoadedMapping loaded,
      LoadMapping(attachments_, *plan_.mapping, [this] { return Check(); }));
  plan_.matching.UseMapping(std::move(loaded.mapping));
  return absl::OkStatus();
}

absl::Status ComparisonJob::TakeBackwardOrder() {
  // msprobe numbers backward calls like their forward calls, and recomputation
  // shifts these numbers. Fuzzy matching uses them as they are, like msprobe.
  if (plan_.matching.fuzzy() || plan_.matching.backward_by_number()) {
    return absl::OkStatus();
  }
  const storage::WaitCheck wait = [this] {
    return is_over() ? absl::CancelledError("cancelled") : absl::OkStatus();
  };
  MSITD_ASSIGN_OR_RETURN(const bool target,
                         IsRunOfMsprobe(readers_, plan_.target(), wait));
  MSITD_ASSIGN_OR_RETURN(const bool golden,
                         IsRunOfMsprobe(readers_, plan_.golden(), wait));
  if (target && golden) plan_.matching.UseBackwardOrder();
  return absl::OkStatus();
}

void ComparisonJob::EndUnrun(StopCause cause) {
  Stop(cause);
  End(absl::CancelledError("cancelled"));
}

void ComparisonJob::Stop(StopCause cause) {
  StopCause none = StopCause::kNone;
  stop_cause_.compare_exchange_strong(none, cause, std::memory_order_relaxed);
}

bool ComparisonJob::IsForsaken(std::chrono::milliseconds grace) {
  if (!plan_.follow || plan_.detach) return false;
  return published_.IsUnreadFor(grace);
}

absl::Status ComparisonJob::Erase() {
  Stop(StopCause::kUser);
  const absl::Status status = writer_.Erase();
  published_.Wake();
  return status;
}

absl::Status ComparisonJob::Check() {
  // Rows must become visible even during a long operation. An error is kept in
  // publish_status_, which is checked below.
  if (!pending_rows_.empty()) PublishIfDue().IgnoreError();
  const bool must_end = is_stopping() || !publish_status_.ok();
  return must_end ? absl::CancelledError("cancelled") : absl::OkStatus();
}

void ComparisonJob::OnRead(uint64_t bytes) {
  working_.set_read_bytes(working_.read_bytes() + static_cast<int64_t>(bytes));
  // Reading a pair of huge tensors must not delay the rows before it. An error
  // is kept in publish_status_ and ends the comparison at the next Check.
  PublishIfDue().IgnoreError();
}

absl::Status ComparisonJob::OnRow(const v1::ComparisonRow& row,
                                  std::string bytes) {
  AccountRow(row, working_);
  if (row.not_compared()) UpdatePartial(working_);
  if (row.has_golden()) ++golden_row_count_;
  // The run may have grown since its tensors were counted.
  working_.set_total_count(std::max(working_.total_count(), golden_row_count_));
  pending_rows_.push_back(std::move(bytes));
  return PublishIfDue();
}

absl::Status ComparisonJob::PublishIfDue() {
  MSITD_RETURN_IF_ERROR(publish_status_);
  if (pending_rows_.size() < kRowsPerBatch &&
      Clock::now() - publish_time_ < kPublishInterval) {
    return absl::OkStatus();
  }
  return Publish();
}

absl::Status ComparisonJob::Publish() {
  MSITD_RETURN_IF_ERROR(publish_status_);
  absl::Status status = StoreRows();
  if (status.ok() && Clock::now() - document_time_ >= kDocumentInterval) {
    status = StoreDocument();
  }
  if (!status.ok()) {
    working_ = published_.View().comparison;
    publish_status_ = Annotate(status, "store rows");
    return publish_status_;
  }
  publish_time_ = Clock::now();
  published_.Show(working_, /*ended=*/false);
  return absl::OkStatus();
}

absl::Status ComparisonJob::StoreRows() {
  if (pending_rows_.empty()) return absl::OkStatus();
  const uint64_t first_row = RowCount(working_) - pending_rows_.size();
  MSITD_RETURN_IF_ERROR(writer_.PutRows(first_row, pending_rows_));
  pending_rows_.clear();
  return absl::OkStatus();
}

absl::Status ComparisonJob::StoreDocument() {
  document_time_ = Clock::now();
  return writer_.PutDocument(working_);
}

void SetFailed(const absl::Status& error, v1::Comparison& comparison) {
  comparison.set_state(v1::Comparison::FAILED);
  comparison.set_error(std::string(Message(error)));
  comparison.set_error_code(static_cast<int32_t>(error.code()));
  comparison.set_error_reason(Reason(error));
}

absl::Status DaemonStopped() {
  return WithReason(absl::UnavailableError(kDaemonStopped),
                    ErrorReason::kNotServing);
}

void ComparisonJob::End(const absl::Status& status) {
  working_.clear_silent_ranks();
  const StopCause cause = stop_cause_.load(std::memory_order_relaxed);
  if (status.ok()) {
    working_.set_state(v1::Comparison::DONE);
    // The count may have included tensors that are incomplete, or that were
    // deleted in the meantime.
    working_.set_total_count(golden_row_count_);
  } else if (absl::IsCancelled(status) && cause == StopCause::kUser) {
    working_.set_state(v1::Comparison::CANCELLED);
  } else if (absl::IsCancelled(status) && cause == StopCause::kForsaken) {
    working_.set_state(v1::Comparison::CANCELLED);
    working_.set_error(kForsaken);
  } else {
    const bool stopped = absl::IsCancelled(status) && publish_status_.ok();
    const absl::Status& error = publish_status_.ok() ? status : publish_status_;
    SetFailed(stopped ? DaemonStopped() : error, working_);
  }
  *working_.mutable_end_time() = Now();
  if (const absl::Status stored = StoreDocument(); !stored.ok()) {
    spdlog::error(
        "compare: the end of {} was not stored, a restart will call "
        "it failed: {}",
        FormatComparisonName(id_), Message(stored));
  } else {
    published_.SetStored();
  }
  published_.Show(working_, /*ended=*/true);
}

}  // namespace msitd::compare
