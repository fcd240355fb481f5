// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/comparison_row_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/service/call/status_mapping.h"
#include "daemon/service/comparison_convert.h"
#include "daemon/service/proto_convert.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// Rows of one message.
constexpr int64_t kRowsPerMessage = 256;

// A message ends behind the row that reaches this: half of what clients of gRPC
// take.
constexpr size_t kMessageBytes = size_t{2} << 20;

bool HasEnded(const v1::Comparison& comparison) {
  return comparison.state() != v1::Comparison::PENDING &&
         comparison.state() != v1::Comparison::RUNNING;
}

}  // namespace

grpc::ServerWriteReactor<v1::StreamComparisonRowsResponse>*
ComparisonRowStream::Start(compare::ComparisonJobs& jobs, TaskPool& pool,
                           const grpc::CallbackServerContext& context,
                           const v1::StreamComparisonRowsRequest& request) {
  auto* stream = new ComparisonRowStream(jobs, pool, context);
  absl::Status status = stream->Open(request);
  if (status.ok()) status = pool.Submit([stream] { stream->Step(); });
  if (!status.ok()) stream->Finish(ToGrpcStatus(status));
  return stream;
}

absl::Status ComparisonRowStream::Open(
    const v1::StreamComparisonRowsRequest& request) {
  MSITD_ASSIGN_OR_RETURN(id_, ToComparisonId(request.comparison()));
  next_row_ = request.first_row();
  if (next_row_ < 0) {
    return FieldInvalid("first_row", fmt::format("{} is negative", next_row_));
  }
  return absl::OkStatus();
}

// Every branch hands the call on as its last touch.
void ComparisonRowStream::Step() {
  if (const absl::Status status = call_.Check(); !status.ok()) {
    Finish(ToGrpcStatus(status));
    return;
  }
  message_.Clear();
  const absl::StatusOr<StreamStep> step = Produce();
  if (!step.ok()) {
    Finish(ToGrpcStatus(step.status()));
  } else if (*step == StreamStep::kMessage) {
    StartWrite(&message_);
  } else if (*step == StreamStep::kEnd) {
    Finish(grpc::Status::OK);
  } else {
    Park(*sent_version_);
  }
}

absl::StatusOr<StreamStep> ComparisonRowStream::Produce() {
  if (reader_ == nullptr) reader_ = jobs_.AddReader(id_);
  MSITD_ASSIGN_OR_RETURN(compare::ComparisonView view, jobs_.Get(id_));
  const bool ended = HasEnded(view.comparison);
  const int64_t row_count = compare::RowCount(view.comparison);
  if (next_row_ < row_count) {
    MSITD_ASSIGN_OR_RETURN(
        std::vector<v1::ComparisonRow> rows,
        jobs_.Rows(id_, next_row_,
                   std::min(kRowsPerMessage, row_count - next_row_)));
    if (rows.empty()) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "row {} of {} rows is not there", next_row_, row_count);
    }
    size_t bytes = 0;
    for (v1::ComparisonRow& row : rows) {
      if (bytes >= kMessageBytes) break;
      bytes += row.ByteSizeLong();
      message_.mutable_rows()->Add(std::move(row));
      ++next_row_;
    }
  } else if (ended ? sent_end_ : sent_version_ == view.version) {
    return ended ? StreamStep::kEnd : StreamStep::kWait;
  }
  sent_version_ = view.version;
  sent_end_ = ended;
  *message_.mutable_comparison() = std::move(view.comparison);
  return StreamStep::kMessage;
}

void ComparisonRowStream::Park(uint64_t version) {
  const std::shared_ptr<Parking> parking = parking_;
  bool cancelled = false;
  {
    // The lock keeps OnCancel away until the number of the waiter is known.
    // Behind AwaitChange the call may be in other hands.
    MutexLock lock(parking->mu);
    cancelled = parking->cancelled;
    if (!cancelled) {
      parking->waiter = jobs_.AwaitChange(id_, version, [this] { Continue(); });
    }
  }
  if (cancelled) Finish(ToGrpcStatus(call_.Check()));
}

void ComparisonRowStream::Continue() {
  const absl::Status status = pool_.SubmitNextStep([this] { Step(); });
  if (!status.ok()) Finish(ToGrpcStatus(status));
}

void ComparisonRowStream::OnWriteDone(bool ok) {
  if (!ok) call_.Cancel();
  Continue();
}

void ComparisonRowStream::OnCancel() {
  call_.Cancel();
  uint64_t waiter = 0;
  {
    MutexLock lock(parking_->mu);
    parking_->cancelled = true;
    waiter = parking_->waiter;
  }
  if (waiter != 0 && jobs_.StopWaiting(id_, waiter)) {
    Finish(ToGrpcStatus(call_.Check()));
  }
}

}  // namespace msitd::service
