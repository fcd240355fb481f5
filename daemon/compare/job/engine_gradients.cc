// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/kink_reader.h"
#include "daemon/compare/origin/pair_facts.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

// Explains gradients of biases that cancel, and of functions with a kink, such
// as ReLU.
namespace msitd::compare {
namespace {

bool AreReadable(const TensorPair& pair) {
  const auto is_readable = [](const LogicalTensor* tensor) {
    return tensor != nullptr && IsReadable(*tensor) &&
           IsFloatingPoint(tensor->dtype);
  };
  return is_readable(pair.golden) && is_readable(pair.target) &&
         pair.golden->shape == pair.target->shape;
}

// Returns whether a tensor is a sum of gradients, without a factor. The state
// of an optimizer, such as `bias.exp_avg_sq`, is not.
bool IsGradientOfBias(const TensorKey& key) {
  return (key.io == Io::kGradWeight && key.index.ends_with("bias")) ||
         (key.io == Io::kState && key.index.ends_with("bias.grad"));
}

uint64_t BytesOf(const TensorPair& pair) {
  return pair.golden->tensor_bytes + pair.target->tensor_bytes;
}

}  // namespace

std::optional<size_t> ComparisonEngine::OnlyTensorOf(const TensorGroup& group,
                                                     const TensorKey& call,
                                                     Io io) {
  if (tensors_of_calls_.empty()) {
    for (size_t i = 0; i < group.pairs.size(); ++i) {
      const LogicalTensor* const tensor = group.pairs[i].golden;
      if (tensor == nullptr || !IsFloatingPoint(tensor->dtype)) continue;
      tensors_of_calls_[{tensor->key.op, tensor->key.call, tensor->key.io}]
          .push_back(i);
    }
  }
  const auto found = tensors_of_calls_.find({call.op, call.call, io});
  if (found == tensors_of_calls_.end() || found->second.size() != 1 ||
      found->second[0] >= row_numbers_.size()) {
    return std::nullopt;
  }
  return found->second[0];
}

absl::StatusOr<std::optional<std::string>> ComparisonEngine::ExplainByKink(
    const TensorGroup& group, const RowMetrics& metrics) {
  const size_t position = row_numbers_.size();
  const TensorPair& pair = group.pairs[position];
  if (pair.golden == nullptr || pair.golden->key.io != Io::kGradInput ||
      !AreReadable(pair) || row_sum_budget_.pairs == 0 || group.window > 0) {
    return std::nullopt;
  }
  const auto input = OnlyTensorOf(group, pair.golden->key, Io::kInput);
  const auto given = OnlyTensorOf(group, pair.golden->key, Io::kGradOutput);
  if (!input.has_value() || !given.has_value()) return std::nullopt;
  for (const size_t of : {*input, *given}) {
    if (!origins_.HasPassed(of) || !AreReadable(group.pairs[of]) ||
        group.pairs[of].golden->shape != pair.golden->shape) {
      return std::nullopt;
    }
  }
  const KinkedCall call{group.pairs[*input], group.pairs[*given], pair};
  const uint64_t bytes =
      BytesOf(call.input) + BytesOf(call.grad_output) + BytesOf(pair);
  if (bytes > row_sum_budget_.bytes) return std::nullopt;
  --row_sum_budget_.pairs;
  row_sum_budget_.bytes -= bytes;
  const absl::StatusOr<std::optional<uint64_t>> changed =
      CountChangedSigns(call, {*golden_, *target_}, observer_);
  if (absl::IsCancelled(changed.status()) ||
      HasReason(changed.status(), ErrorReason::kSourceFailed)) {
    return changed.status();
  }
  if (!changed.ok() || changed->value_or(0) == 0) return std::nullopt;
  return conditioning_.ExplainRoot(
      metrics,
      fmt::format(
          "ill-conditioned: {} of {} elements of the input have another "
          "sign; each run has the derivative at its own",
          **changed, ElementCount(pair.golden->shape)));
}

std::optional<std::string> ComparisonEngine::ExplainAsZero(
    const TensorGroup& group, const PairPlan& plan, const RowMetrics& metrics) {
  const TensorPair& pair = group.pairs[row_numbers_.size()];
  if (pair.golden == nullptr || pair.target == nullptr || group.window > 0 ||
      !IsGradientOfBias(pair.golden->key) ||
      pair.golden->shape != pair.target->shape ||
      pair.golden->shape.size() != 1 || !pair.golden->knows_summary) {
    return std::nullopt;
  }
  const auto given = OnlyTensorOf(group, pair.golden->key, Io::kGradOutput);
  if (!given.has_value() || !origins_.HasPassed(*given)) return std::nullopt;
  const TensorPair& of = group.pairs[*given];
  if (of.golden->shape.empty() || !of.golden->knows_summary ||
      of.golden->shape.back() != pair.golden->shape[0]) {
    return std::nullopt;
  }
  // The errors of the rows are independent, so that their sum has as much error
  // as all of them.
  constexpr double kErrorsMax = 2;
  const double roundoff = RoundoffOf(
      CoarsestOf(of, CoarsestOf(pair, plan.basis.basis.computed_in)));
  const double allowed = kErrorsMax *
                         std::max(origins_.MeasuredErrorOf(*given), roundoff) *
                         of.golden->summary.l2_norm();
  const double norm = pair.golden->summary.l2_norm();
  const std::optional<double> nl2 =
      metrics[static_cast<size_t>(compute::Metric::kNl2)];
  if (!std::isfinite(allowed) || !(norm <= allowed) || !nl2.has_value() ||
      !(*nl2 * norm <= allowed)) {
    return std::nullopt;
  }
  return "ill-conditioned: the rows of the gradient cancel up to their errors";
}

}  // namespace msitd::compare
