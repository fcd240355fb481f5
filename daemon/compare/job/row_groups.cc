// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/row_groups.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "daemon/compute/metric_table.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Request = v1::SummarizeComparisonRowsRequest;

constexpr std::string_view kShare = "share";
// The numbers of a group as a message.
constexpr size_t kGroupBytes = 40;

// Sets a property, which must not be set yet.
absl::Status SetProperty(bool& property) {
  if (std::exchange(property, true)) {
    return FieldInvalid("group_by", "a property is given twice");
  }
  return absl::OkStatus();
}

// Whether `a` is worse than `b`. NaN is the worst value.
bool IsWorse(double a, double b, bool higher_is_better) {
  if (std::isnan(b)) return false;
  if (std::isnan(a)) return true;
  return higher_is_better ? a < b : a > b;
}

void Count(v1::Verdict verdict, RowGroups::Group& group) {
  switch (verdict) {
    case v1::PASS:
      group.set_pass_count(group.pass_count() + 1);
      break;
    case v1::FAIL:
      group.set_fail_count(group.fail_count() + 1);
      break;
    case v1::UNMATCHED:
      group.set_unmatched_count(group.unmatched_count() + 1);
      break;
    default:
      group.set_skipped_count(group.skipped_count() + 1);
  }
}

}  // namespace

absl::StatusOr<RowGroups> RowGroups::Create(const Request& request,
                                            const v1::Comparison& comparison) {
  std::vector<v1::Metric> metrics;
  const bool takes_share = request.value().empty() || request.value() == kShare;
  bool has_metric = takes_share;
  bool higher_is_better = false;
  for (const compute::MetricInfo& info : compute::MetricTable()) {
    v1::Metric& metric = metrics.emplace_back();
    metric.set_name(std::string(info.name));
    metric.set_unit(std::string(info.unit));
    if (takes_share || info.name != request.value()) continue;
    has_metric = true;
    higher_is_better = info.higher_is_better;
  }
  if (!has_metric) {
    return FieldInvalid("value", "the daemon has no metric of this name");
  }
  RowGroups out(Bounds(comparison, metrics));
  if (!takes_share) out.metric_ = request.value();
  out.higher_is_better_ = higher_is_better;
  for (const int property : request.group_by()) {
    switch (property) {
      case Request::OP:
        MSITD_RETURN_IF_ERROR(SetProperty(out.by_op_));
        break;
      case Request::RANK:
        MSITD_RETURN_IF_ERROR(SetProperty(out.by_rank_));
        break;
      case Request::TOKEN:
        MSITD_RETURN_IF_ERROR(SetProperty(out.by_token_));
        break;
      default:
        return FieldInvalid("group_by", "not a property of rows");
    }
  }
  return out;
}

std::optional<double> RowGroups::ValueOf(const v1::ComparisonRow& row) const {
  if (metric_.empty()) {
    const auto decided = bounds_.Decided(row);
    return decided.has_value() ? std::optional(decided->share) : std::nullopt;
  }
  return MetricOf(row, metric_);
}

RowGroups::Entry& RowGroups::EntryOf(const v1::ComparisonRow& row) {
  std::string key = fmt::format("{} {} ", by_rank_ ? row.rank() : 0,
                                by_token_ ? row.token() : 0);
  if (by_op_) key += row.op();
  const auto [found, is_new] =
      positions_.try_emplace(std::move(key), entries_.size());
  if (!is_new) return entries_[found->second];
  Entry& entry = entries_.emplace_back();
  if (by_op_) entry.group.set_op(row.op());
  if (by_rank_) entry.group.set_rank(row.rank());
  if (by_token_) entry.group.set_token(row.token());
  entry.group.set_worst_row(-1);
  size_bytes_ += kGroupBytes + entry.group.op().size();
  return entry;
}

bool RowGroups::IsWorseRow(const v1::ComparisonRow& row,
                           std::optional<double> value,
                           const Entry& entry) const {
  const bool fails = row.verdict() == v1::FAIL;
  const bool has_failure = entry.group.fail_count() > 0;
  if (entry.group.worst_row() < 0 || fails != has_failure) {
    return entry.group.worst_row() < 0 || fails;
  }
  if (!value.has_value()) return false;
  return !entry.row_value.has_value() ||
         IsWorse(*value, *entry.row_value, higher_is_better_);
}

void RowGroups::Add(const v1::ComparisonRow& row) {
  Entry& entry = EntryOf(row);
  Group& group = entry.group;
  const std::optional<double> value = ValueOf(row);
  if (value.has_value() && (!group.has_worst() || IsWorse(*value, group.worst(),
                                                          higher_is_better_))) {
    group.set_worst(*value);
  }
  if (IsWorseRow(row, value, entry)) {
    group.set_worst_row(row.row());
    entry.row_value = value;
  }
  if (row.target().nan_count() > 0 || row.target().infinity_count() > 0) {
    group.set_non_finite_count(group.non_finite_count() + 1);
  }
  Count(row.verdict(), group);
}

void RowGroups::MoveTo(v1::SummarizeComparisonRowsResponse& response) {
  for (Entry& entry : entries_) {
    *response.add_groups() = std::move(entry.group);
  }
}

}  // namespace msitd::compare
