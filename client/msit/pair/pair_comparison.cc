// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/pair_comparison.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "client/msit/pair/private_comparison.h"
#include "protos/status/status.h"

namespace msitd::msit_command {

PairComparison::PairComparison(ask::Interrupts& interrupts, Take take)
    : interrupts_(interrupts), take_(std::move(take)) {}

PairComparison::~PairComparison() = default;

PairComparison::Take PairComparison::TakeReportRows(
    std::function<void(size_t pair, const ReportRow& row)> take) {
  return
      [take = std::move(take)](size_t pair, const v1::Comparison& comparison,
                               const v1::ComparisonRow& row) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(const ReportRow made,
                               MakeReportRow(comparison, row));
        take(pair, made);
        return absl::OkStatus();
      };
}

absl::Status PairComparison::Add(const Tensor& golden, const Tensor& my) {
  if (batch_bytes_ >= kBatchBytes || batch_pairs_.size() >= kBatchPairs) {
    MSITD_RETURN_IF_ERROR(Finish());
  }
  if (batch_ == nullptr) {
    MSITD_ASSIGN_OR_RETURN(batch_, PrivateComparison::Start(interrupts_));
  }
  const std::string op = fmt::format("{}", used_op_count_++);
  using Side = PrivateComparison::Side;
  MSITD_RETURN_IF_ERROR(batch_->Record(Side::kGolden, op, golden));
  batch_bytes_ += golden.bytes.size();
  MSITD_RETURN_IF_ERROR(batch_->Record(Side::kMy, op, my));
  batch_bytes_ += my.bytes.size();
  batch_pairs_[op] = count_++;
  return absl::OkStatus();
}

absl::Status PairComparison::Finish() {
  if (batch_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<PrivateComparison> batch = std::move(batch_);
  std::map<std::string, size_t> pairs = std::exchange(batch_pairs_, {});
  batch_bytes_ = 0;
  if (pairs.empty()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(const PrivateComparison::Result result,
                         batch->Compare());
  const size_t pair_count = pairs.size();
  for (const v1::ComparisonRow& row : result.rows) {
    const auto pair = pairs.extract(row.op());
    // A golden tensor whose counterpart was rejected.
    if (pair.empty()) continue;
    MSITD_RETURN_IF_ERROR(take_(pair.mapped(), result.comparison, row));
  }
  if (!pairs.empty()) {
    return MakeStatus(absl::StatusCode::kInternal, "{} of {} pairs have no row",
                      pairs.size(), pair_count);
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
