// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/row_measurer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/ask/query/tensor_bytes.h"
#include "client/ask/text/text.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Rows that one call adds. The daemon accepts 1000 rows, and messages of 4 MiB.
constexpr int kRowsPerCall = 256;
constexpr size_t kCallBytes = size_t{1} << 20;
// The interval after which metrics are stored and visible to other users.
constexpr std::chrono::seconds kCallInterval(2);

uint64_t BytesOf(const v1::ComparedTensor& tensor) {
  return ElementCount(tensor.shape()) *
         ElementBytes(static_cast<DType>(tensor.dtype()));
}

}  // namespace

RowMeasurer::RowMeasurer(
    Invocation& invocation,
    const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
    uint64_t pair_bytes_max, v1::Comparison& comparison,
    std::vector<MetricCounts>& counts)
    : invocation_(invocation),
      plugins_(plugins),
      pair_bytes_max_(pair_bytes_max),
      comparison_(comparison),
      counts_(counts) {
  counts_.assign(plugins_.size(), MetricCounts());
  request_.set_comparison(comparison_.name());
}

std::string RowMeasurer::WhyNot(const v1::ComparisonRow& row) const {
  if (!row.has_golden()) return "no golden tensor";
  if (!row.has_target()) return "no target tensor";
  if (row.golden().ranks_size() > 0 || row.target().ranks_size() > 0) {
    return "not measured: assembled from shards";
  }
  if (!row.golden().view().empty() || !row.target().view().empty()) {
    return "not measured: seen through a view";
  }
  if (row.sampled() && comparison_.reading() == v1::Comparison::SAMPLES) {
    return "not measured: only samples were read";
  }
  if (row.sampled()) return "not measured: only samples are stored";
  if (row.unread()) return "not measured: failed without being read";
  for (const v1::ComparedTensor* side : {&row.golden(), &row.target()}) {
    if (!IsValid(static_cast<DType>(side->dtype()))) {
      return fmt::format("not measured: dtype {} is unknown to this msitctl",
                         static_cast<int>(side->dtype()));
    }
  }
  const uint64_t golden_count = ElementCount(row.golden().shape());
  const uint64_t target_count = ElementCount(row.target().shape());
  if (golden_count != target_count) {
    return fmt::format("not measured: {} elements against {}", target_count,
                       golden_count);
  }
  if (golden_count == 0) return "no elements";
  const uint64_t bytes = BytesOf(row.golden()) + BytesOf(row.target());
  if (bytes > pair_bytes_max_) {
    return fmt::format("not measured: the tensors have {}, more than {}",
                       ask::HumanSize(static_cast<int64_t>(bytes)),
                       ask::HumanSize(static_cast<int64_t>(pair_bytes_max_)));
  }
  return {};
}

bool RowMeasurer::AllGivenUp() const {
  return std::all_of(plugins_.begin(), plugins_.end(), [](const auto& plugin) {
    return !plugin->given_up().empty();
  });
}

ask::Outcome RowMeasurer::ReadSide(const char* side,
                                   const v1::ComparedTensor& tensor,
                                   std::string& bytes, std::string& why_not) {
  const ask::WantedBytes wanted{tensor.name(),
                                static_cast<int64_t>(BytesOf(tensor))};
  bytes.clear();
  ask::Outcome outcome = ask::ReadTensorBytes(invocation_, wanted,
                                              [&bytes](std::string_view piece) {
                                                bytes += piece;
                                                return absl::OkStatus();
                                              });
  if (!outcome.ok() && ask::IsOfTensor(outcome)) {
    why_not = ask::AnswerText(fmt::format("{}: {}", side, outcome.error));
    return {};
  }
  return outcome;
}

ask::Outcome RowMeasurer::ReadPair(const v1::ComparisonRow& row,
                                   ask::TensorPairBytes& pair,
                                   std::string& why_not) {
  why_not = WhyNot(row);
  if (!why_not.empty()) return {};
  MSITCTL_RETURN_IF_FAILED(ReadSide("golden", row.golden(), golden_, why_not));
  if (!why_not.empty()) return {};
  pair.golden = golden_;
  const auto shape_of = [](const v1::ComparedTensor& tensor) {
    return std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end());
  };
  pair.golden_dtype = static_cast<DType>(row.golden().dtype());
  pair.golden_shape = shape_of(row.golden());
  pair.target = golden_;
  pair.target_dtype = static_cast<DType>(row.target().dtype());
  pair.target_shape = shape_of(row.target());
  if (row.bitwise_equal()) return {};
  MSITCTL_RETURN_IF_FAILED(ReadSide("target", row.target(), target_, why_not));
  pair.target = target_;
  return {};
}

ask::Outcome RowMeasurer::Add(const v1::ComparisonRow& row) {
  ask::TensorPairBytes pair;
  std::string why_not;
  if (AllGivenUp()) {
    why_not = plugins_.front()->given_up();
  } else {
    MSITCTL_RETURN_IF_FAILED(ReadPair(row, pair, why_not));
  }
  v1::AddRowMetricsRequest::RowMetrics added;
  added.set_row(row.row());
  for (size_t i = 0; i < plugins_.size(); ++i) {
    v1::CustomMetric& metric = *added.add_metrics();
    metric.set_metric(plugins_[i]->metric());
    if (why_not.empty()) {
      MSITCTL_RETURN_IF_FAILED(plugins_[i]->Measure(pair, metric));
    } else {
      metric.set_text(why_not);
    }
    MetricCounts& counts = counts_[i];
    ++counts.row_count;
    if (metric.has_value()) ++counts.value_count;
    if (!metric.has_value() && counts.first_problem.empty()) {
      counts.first_problem =
          fmt::format("row {}, {}: {}", row.row(), row.op(),
                      metric.text().empty() ? "returned none" : metric.text());
    }
  }
  request_bytes_ += added.ByteSizeLong();
  *request_.add_rows() = std::move(added);
  const bool is_due = request_.rows_size() == kRowsPerCall ||
                      request_bytes_ >= kCallBytes ||
                      Clock::now() - flush_time_ >= kCallInterval;
  return is_due ? Flush() : ask::Outcome();
}

ask::Outcome RowMeasurer::Flush() {
  flush_time_ = Clock::now();
  if (request_.rows().empty()) return {};
  v1::Comparison latest;
  MSITCTL_RETURN_IF_FAILED(invocation_.Ask(
      &v1::ComparisonService::Stub::AddRowMetrics, request_, latest));
  comparison_ = std::move(latest);
  request_.clear_rows();
  request_bytes_ = 0;
  return {};
}

}  // namespace msitd::msitctl
