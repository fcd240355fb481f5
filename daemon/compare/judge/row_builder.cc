// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/row_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/dtype.h"
#include "protos/base/resource_name.h"
#include "protos/base/tensor_statistics.h"

namespace msitd::compare {
namespace {

using ComparedTensorPtr = std::unique_ptr<v1::ComparedTensor>;

// Sets the fields that AddSummary sets, if the statistics contain them.
void AddStatistics(std::string_view text, v1::ComparedTensor& out) {
  const auto statistics = ParseTensorStatistics(text);
  if (!statistics.has_value()) return;
  for (const TensorStatistic& one : *statistics) {
    const std::optional<double> number = NumberOf(one);
    if (!number.has_value()) continue;
    if (one.name == "min") out.set_min(*number);
    if (one.name == "max") out.set_max(*number);
    if (one.name == "mean") out.set_mean(*number);
    if (one.name == "l2_norm") out.set_l2_norm(*number);
    // If the count is absent, the tensor may have NaN nevertheless.
    if (one.name == "nan_count") {
      out.set_nan_count(static_cast<int64_t>(*number));
    }
    if (one.name == "pos_inf_count" || one.name == "neg_inf_count") {
      out.set_infinity_count(out.infinity_count() +
                             static_cast<int64_t>(*number));
    }
  }
}

// Returns an element of an integer tensor as text. `exact` is absent if a
// double represents the value exactly.
std::string IntegerText(double rounded,
                        const std::optional<absl::int128>& exact) {
  if (!exact.has_value()) return fmt::format("{:.0f}", rounded);
  // The value is an int64 or a uint64.
  return *exact < 0 ? fmt::format("{}", static_cast<int64_t>(*exact))
                    : fmt::format("{}", static_cast<uint64_t>(*exact));
}

// Returns an element of type `dtype` as text. If `is_short`, floats have at
// most six digits.
std::string ElementText(DType dtype, double value,
                        const std::optional<absl::int128>& exact,
                        bool is_short) {
  if (!IsFloatingPoint(dtype) && !IsComplex(dtype)) {
    return IntegerText(value, exact);
  }
  return is_short ? fmt::format("{:.6g}", value) : fmt::format("{}", value);
}

// Returns a description of `tensor`. Uses the memory of `reused` unless that is
// null.
ComparedTensorPtr Describe(const LogicalTensor& tensor, std::string_view run,
                           ComparedTensorPtr reused) {
  ComparedTensorPtr out = std::move(reused);
  if (out == nullptr) out = std::make_unique<v1::ComparedTensor>();
  out->Clear();
  out->set_name(FormatTensorName(run, RecordedKey(tensor)));
  if (tensor.view != nullptr) out->set_view(tensor.view->text);
  out->set_dtype(static_cast<v1::DType>(tensor.dtype));
  for (const int64_t dim : tensor.shape) out->add_shape(dim);
  out->set_kind(static_cast<v1::RecordKind>(tensor.kind));
  out->set_value(tensor.value);
  if (tensor.requires_grad.has_value()) {
    out->set_requires_grad(*tensor.requires_grad);
  }
  if (tensor.kind == RecordKind::kStatistics) {
    AddStatistics(tensor.value, *out);
  } else if (tensor.knows_summary) {
    AddSummary(tensor.summary, *out);
  }
  if (tensor.assembly != nullptr) {
    out->set_layout(tensor.assembly->layout);
    for (const int32_t rank : RanksOf(*tensor.assembly)) out->add_ranks(rank);
  }
  if (tensor.hash != ContentHash()) {
    out->set_hash(HashText(tensor.hash));
  }
  return out;
}

// Returns whether `value` exceeds an upper bound of the predicate on its
// metric.
bool FailsByBound(const predicate::Predicate& predicate, int metric,
                  double value) {
  const std::vector<predicate::Predicate::Bound> bounds = predicate.Bounds();
  return std::any_of(bounds.begin(), bounds.end(), [&](const auto& bound) {
    if (bound.name != metric || bound.at_least) return false;
    return bound.is_strict ? value >= bound.number : value > bound.number;
  });
}

// Returns the position of element `index` in a row-major tensor, such as
// `[0,5]`.
std::string PositionText(uint64_t index, std::span<const int64_t> shape) {
  std::vector<int64_t> position(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const auto dim = static_cast<uint64_t>(shape[i]);
    if (dim == 0) return "[]";
    position[i] = static_cast<int64_t>(index % dim);
    index /= dim;
  }
  return ShapeText(position);
}

}  // namespace

void DescribePair(const TensorPair& pair, std::string_view golden_run,
                  std::string_view target_run, v1::ComparisonRow& row) {
  // Clear would free the memory of both sides.
  ComparedTensorPtr golden(row.release_golden());
  ComparedTensorPtr target(row.release_target());
  row.Clear();
  const LogicalTensor& first =
      pair.golden != nullptr ? *pair.golden : *pair.target;
  row.set_rank(first.group_number());
  row.set_token(first.key.token);
  row.set_op(first.key.op);
  row.set_call(first.key.call);
  row.set_io(static_cast<v1::Io>(first.key.io));
  row.set_index(first.key.index);
  row.set_sequence(static_cast<int64_t>(first.sequence));
  if (pair.golden != nullptr && pair.target != nullptr) {
    row.set_pairing(pair.reason.data(), pair.reason.size());
  }
  if (pair.golden != nullptr) {
    golden = Describe(*pair.golden, golden_run, std::move(golden));
    row.set_allocated_golden(golden.release());
  }
  if (pair.target != nullptr) {
    target = Describe(*pair.target, target_run, std::move(target));
    row.set_allocated_target(target.release());
  }
}

void AddTargetCall(const TensorPair& pair, v1::ComparisonRow& row) {
  if (pair.golden == nullptr || pair.target == nullptr ||
      pair.mapped_pair.has_value() ||
      pair.golden->key.call == pair.target->key.call ||
      row.verdict() == v1::PASS) {
    return;
  }
  row.set_reason(
      fmt::format("{}; target call {}", row.reason(), pair.target->key.call));
}

void AddSummary(const Summary& summary, v1::ComparedTensor& out) {
  if (summary.has_extremes()) {
    out.set_min(summary.min);
    out.set_max(summary.max);
  }
  // If the sum exceeds the range of double, the mean is unknown.
  if (summary.finite_count() > 0 && std::isfinite(summary.mean())) {
    out.set_mean(summary.mean());
  }
  if (summary.finite_count() > 0) out.set_l2_norm(summary.l2_norm());
  out.set_nan_count(static_cast<int64_t>(summary.nan_count));
  out.set_infinity_count(static_cast<int64_t>(summary.positive_infinity_count +
                                              summary.negative_infinity_count));
}

std::string ShapeDifference(const LogicalTensor& target,
                            const LogicalTensor& golden,
                            std::string_view layout_hint) {
  std::string out =
      fmt::format("shape: target {}, golden {}", ShapeText(target.shape),
                  ShapeText(golden.shape));
  for (const LogicalTensor* const tensor : {&target, &golden}) {
    if (tensor->assembly == nullptr) continue;
    const Assembly& assembly = *tensor->assembly;
    const LogicalTensor& other = tensor == &target ? golden : target;
    out += fmt::format("; {} is {}, the first with {}",
                       tensor == &target ? "target" : "golden",
                       AssemblyText(assembly),
                       ShapeText(assembly.shards.front().shape));
    if (RanksOf(assembly).size() > 1 &&
        assembly.shards.front().shape == other.shape) {
      out += ", which alone has the shape of the other side";
    }
  }
  if (!layout_hint.empty()) {
    out += fmt::format("; if ranks hold pieces of it: {}", layout_hint);
  }
  return out;
}

std::string ShapeText(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::string LargestDifference(const compute::PairMetrics& metrics,
                              const LogicalTensor& target,
                              const LogicalTensor& golden, uint64_t step) {
  if (metrics[compute::Metric::kMaxAbs].value_or(0) == 0) return "";
  // The metrics count a complex element as two.
  const uint64_t element =
      metrics.max_abs_index / (IsComplex(golden.dtype) ? 2 : 1) * step;
  const auto text_of = [&](bool is_short) {
    return fmt::format("target {}, golden {}",
                       ElementText(target.dtype, metrics.max_abs_target,
                                   metrics.max_abs_target_integer, is_short),
                       ElementText(golden.dtype, metrics.max_abs_golden,
                                   metrics.max_abs_golden_integer, is_short));
  };
  const bool look_equal = fmt::format("{:.6g}", metrics.max_abs_target) ==
                          fmt::format("{:.6g}", metrics.max_abs_golden);
  std::string out =
      fmt::format("largest difference at {}: {}",
                  PositionText(element, golden.shape), text_of(!look_equal));
  for (const LogicalTensor* const tensor : {&target, &golden}) {
    const std::optional<int32_t> rank = RankOfElement(*tensor, element);
    if (!rank.has_value()) continue;
    out += fmt::format(", in the shard of {} rank {}",
                       tensor == &target ? "target" : "golden", *rank);
  }
  return out;
}

std::string WorstPlaces(const predicate::Predicate& predicate,
                        const RowMetrics& metrics,
                        const compute::PairMetrics& pair,
                        const compute::ElementMetrics& elements,
                        std::span<const int64_t> shape) {
  if (shape.empty()) return "";
  const std::span<const int64_t> leading = shape.first(shape.size() - 1);
  const auto row_text = [leading](uint64_t row) {
    return leading.size() == 1 ? fmt::format("row {}", row)
                               : "row " + PositionText(row, leading);
  };
  const auto at = [](compute::ElementMetric metric) {
    return kFirstElementMetric + static_cast<int>(metric);
  };
  const struct {
    int metric;
    std::string place;
  } entries[] = {
      {static_cast<int>(compute::Metric::kRowNl2Max),
       "worst " + row_text(pair.worst_row)},
      {static_cast<int>(compute::Metric::kChannelNl2Max),
       fmt::format("worst channel {}", pair.worst_channel)},
      {at(compute::ElementMetric::kRowKlMax),
       "largest KL in " + row_text(elements.row_kl_max_row)},
      {at(compute::ElementMetric::kTop1MarginFlip),
       "largest margin in " + row_text(elements.top1_flip_row)},
  };
  std::string out;
  for (const auto& [metric, place] : entries) {
    const std::optional<double> value = metrics[static_cast<size_t>(metric)];
    // A single row has neither a position nor channels.
    if (leading.empty() || value.value_or(0) == 0) continue;
    if (!FailsByBound(predicate, metric, *value)) continue;
    out += fmt::format("; {}: {:.6g}", place, *value);
  }
  return out;
}

std::string IntegersOf(const compute::PairMetrics& metrics) {
  return fmt::format(
      "target {}, golden {}",
      IntegerText(metrics.max_abs_target, metrics.max_abs_target_integer),
      IntegerText(metrics.max_abs_golden, metrics.max_abs_golden_integer));
}

}  // namespace msitd::compare
