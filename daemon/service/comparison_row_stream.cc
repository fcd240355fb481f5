// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/comparison_row_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_job.h"
#include "daemon/service/comparison_convert.h"
#include "daemon/service/proto_convert.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// Maximum number of rows per message.
constexpr int64_t kRowsPerMessage = 256;

// A message ends with the row that reaches this size, which is half of the
// default limit of gRPC clients.
constexpr size_t kMessageBytes = size_t{2} << 20;

using Source = StreamSource<v1::StreamComparisonRowsResponse>;

class RowSource final : public Source {
 public:
  RowSource(compare::ComparisonJobs& jobs, uint64_t id, int64_t first_row)
      : jobs_(jobs), id_(id), next_row_(first_row) {}

  absl::StatusOr<StreamStep> Next(
      const Call& /*call*/,
      v1::StreamComparisonRowsResponse& message) override {
    if (reader_ == nullptr) reader_ = jobs_.AddReader(id_);
    MSITD_ASSIGN_OR_RETURN(compare::ComparisonView view, jobs_.Get(id_));
    const bool ended = compare::HasEnded(view.comparison);
    const int64_t row_count = compare::RowCount(view.comparison);
    if (next_row_ < row_count) {
      MSITD_RETURN_IF_ERROR(AddRows(row_count, message));
    } else if (ended ? sent_end_ : sent_version_ == view.version) {
      return ended ? StreamStep::kEnd : StreamStep::kWait;
    }
    sent_version_ = view.version;
    sent_end_ = ended;
    *message.mutable_comparison() = std::move(view.comparison);
    return StreamStep::kMessage;
  }

  uint64_t Await(absl::AnyInvocable<void()> wake) override {
    return jobs_.AwaitChange(id_, *sent_version_, std::move(wake));
  }

  bool StopWaiting(uint64_t waiter) override {
    return jobs_.StopWaiting(id_, waiter);
  }

 private:
  absl::Status AddRows(int64_t row_count,
                       v1::StreamComparisonRowsResponse& message) {
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
      message.mutable_rows()->Add(std::move(row));
      ++next_row_;
    }
    return absl::OkStatus();
  }

  compare::ComparisonJobs& jobs_;
  const uint64_t id_;
  std::shared_ptr<void> reader_;  // See ComparisonJobs::AddReader.
  int64_t next_row_;
  // Version of the last comparison that was sent, and whether it had ended.
  std::optional<uint64_t> sent_version_;
  bool sent_end_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> StreamRows(
    compare::ComparisonJobs& jobs,
    const v1::StreamComparisonRowsRequest& request) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t id,
                         ToComparisonId(request.comparison()));
  const int64_t first_row = request.first_row();
  if (first_row < 0) {
    return FieldInvalid("first_row", fmt::format("{} is negative", first_row));
  }
  return std::make_unique<RowSource>(jobs, id, first_row);
}

}  // namespace msitd::service
