// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair_comparison.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>

#include "client/msit/private_comparison.h"
#include "protos/status/status.h"

namespace msitd::msit {

PairComparison::PairComparison(ctl::Interrupts& interrupts, Take take)
    : interrupts_(interrupts), take_(std::move(take)) {}

PairComparison::~PairComparison() = default;

absl::Status PairComparison::Add(const Tensor& golden, const Tensor& my) {
  if (batch_bytes_ >= kBatchBytes || count_ - batch_begin_ >= kBatchPairs) {
    MSITD_RETURN_IF_ERROR(Finish());
  }
  if (batch_ == nullptr) {
    MSITD_ASSIGN_OR_RETURN(batch_, PrivateComparison::Start(interrupts_));
  }
  const std::string op = fmt::format("{}", count_);
  using Side = PrivateComparison::Side;
  MSITD_RETURN_IF_ERROR(batch_->Record(Side::kGolden, op, golden));
  MSITD_RETURN_IF_ERROR(batch_->Record(Side::kMy, op, my));
  batch_bytes_ += golden.bytes.size() + my.bytes.size();
  ++count_;
  return absl::OkStatus();
}

absl::Status PairComparison::Finish() {
  if (batch_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<PrivateComparison> batch = std::move(batch_);
  const size_t begin = std::exchange(batch_begin_, count_);
  batch_bytes_ = 0;
  MSITD_ASSIGN_OR_RETURN(const PrivateComparison::Result result,
                         batch->Compare());
  if (result.rows.size() != count_ - begin) {
    return MakeStatus(absl::StatusCode::kInternal, "{} rows of {} pairs",
                      result.rows.size(), count_ - begin);
  }
  for (const v1::ComparisonRow& row : result.rows) {
    size_t pair = 0;
    const char* const end = row.op().data() + row.op().size();
    std::from_chars(row.op().data(), end, pair);
    if (pair < begin || pair >= count_) {
      return MakeStatus(absl::StatusCode::kInternal, "a row of no pair");
    }
    MSITD_ASSIGN_OR_RETURN(const ReportRow made,
                           MakeReportRow(result.comparison, row));
    take_(pair, made);
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit
