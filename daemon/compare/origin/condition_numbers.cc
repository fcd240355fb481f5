// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "daemon/compare/match/op_kind.h"
#include "daemon/compare/origin/conditioning.h"
#include "daemon/compare/origin/pair_facts.h"

// The condition numbers of the ops that Conditioning recognizes.
namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// Condition numbers below this are covered by the default bounds.
constexpr double kConditionMin = 4;
// Condition numbers are computed for whole tensors. Those of single rows may be
// this many times larger.
constexpr double kRowsDiffer = 2;
// Calls with more tensors than this are not explained.
constexpr int32_t kCallTensorsMax = 64;
// Smaller angles are covered by the default bounds.
constexpr double kAngleMin = 100;

// Returns the share of the norm that is not due to the mean.
double SpreadOf(const Summary& summary) {
  const double norm = summary.l2_norm();
  const double mean =
      std::fabs(summary.mean()) * std::sqrt(static_cast<double>(summary.count));
  if (norm == 0 || !std::isfinite(norm)) return 0;
  const double ratio = std::min(mean / norm, 1.0);
  return std::sqrt((1 - ratio) * (1 + ratio));
}

// Returns the number of products in each sum of a matrix product of `input`
// and `weight`, which has two dimensions; 0 if the shapes do not fit.
int64_t SummandsOf(const LogicalTensor& input, const LogicalTensor& weight,
                   const LogicalTensor& output) {
  if (input.shape.empty() || output.shape.empty() || weight.shape.size() != 2) {
    return 0;
  }
  const int64_t from = input.shape.back();
  const int64_t to = output.shape.back();
  const bool fits = (weight.shape[0] == from && weight.shape[1] == to) ||
                    (weight.shape[0] == to && weight.shape[1] == from);
  return fits ? from : 0;
}

bool IsWithinOne(const Summary& summary) {
  return summary.min >= -1 && summary.max <= 1;
}

}  // namespace

double Conditioning::Limited(std::optional<double> error, int32_t input,
                             DType type) const {
  return std::min(error.value_or(0),
                  kInputRoundingsMax * InputRoundoffOf(input, type));
}

double Conditioning::InputRoundoffOf(int32_t input, DType type) const {
  return RoundoffOf(
      CoarsestOf((*pairs_)[input], Coarser(computed_in_[input], type)));
}

std::optional<std::vector<int32_t>> Conditioning::FloatInputsOf(
    int32_t event) const {
  const int32_t number = tree_->event(event).call;
  std::vector<int32_t> inputs;
  if (event - tree_->calls()[number].first > kCallTensorsMax) {
    return std::nullopt;
  }
  for (int32_t i = tree_->calls()[number].first; i < event; ++i) {
    const TensorPair& input = (*pairs_)[i];
    if (tree_->event(i).call != number ||
        tree_->event(i).role != Role::kInput) {
      continue;
    }
    if (input.golden == nullptr || input.target == nullptr) {
      return std::nullopt;
    }
    if (!IsFloat(input)) continue;
    if (!IsMeasured(input) || !errors_[i].has_value()) return std::nullopt;
    inputs.push_back(i);
  }
  return inputs;
}

std::optional<size_t> Conditioning::InputOfNext() const {
  const auto event = static_cast<int32_t>(errors_.size());
  if (!may_be_by_sums_ || !tree_.has_value() ||
      errors_.size() >= tree_->event_count()) {
    return std::nullopt;
  }
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  if (of.role != Role::kOutput || call.has_parts || call.is_backward ||
      !IsMeasured((*pairs_)[event]) || !IsFloat((*pairs_)[event]) ||
      (*pairs_)[event].golden->shape.empty()) {
    return std::nullopt;
  }
  if (SubtractsMean(call.op) || IsSum(call.op) ||
      IsElementwiseProduct(call.op) || IsSineOrCosine(call.op) ||
      weighed_.size() >= kWeighedOpsMax ||
      weighed_.contains(std::string(call.op))) {
    return std::nullopt;
  }
  const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
  if (!inputs.has_value()) return std::nullopt;
  std::optional<size_t> out;
  for (const int32_t input : *inputs) {
    if (HasEqualBytes((*pairs_)[input])) continue;
    // A second one that differs could be the weights.
    if (out.has_value()) return std::nullopt;
    out = static_cast<size_t>(input);
  }
  return out;
}

Conditioning::ErrorBound Conditioning::BoundOf(int32_t event,
                                               DType type) const {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  const TensorPair& pair = (*pairs_)[event];
  if (of.role != Role::kOutput || call.has_parts || call.is_backward ||
      !call.has_input || !IsMeasured(pair) || !IsFloat(pair) ||
      pair.golden->summary.l2_norm() == 0) {
    return {};
  }
  if (SubtractsMean(call.op)) return BoundOfNorm(event, type);
  if (IsSum(call.op)) return BoundOfSum(event, type);
  if (IsProduct(call.op)) return BoundOfProduct(event, type);
  return IsWithinOne(pair.golden->summary) ? BoundOfAngles(event)
                                           : ErrorBound();
}

Conditioning::ErrorBound Conditioning::BoundOfNorm(int32_t event,
                                                   DType type) const {
  const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
  if (!inputs.has_value()) return {};
  const Summary& result = (*pairs_)[event].golden->summary;
  ErrorBound out;
  for (const int32_t i : *inputs) {
    const TensorPair& input = (*pairs_)[i];
    if (input.golden->summary.count != result.count) continue;
    const double input_spread = SpreadOf(input.golden->summary);
    const double condition = SpreadOf(result) / input_spread;
    if (input_spread <= 0 || condition < kConditionMin) continue;
    // The norm takes the mean off each row, so large channels do not hide the
    // errors of the others in its result.
    const double explained =
        kRowsDiffer * condition * Limited(revealed_[i], i, type);
    if (explained <= out.error) continue;
    // If only few elements are rounded differently, each of them differs by
    // more than the norm shows.
    out = {explained,
           std::max(2 * explained,
                    kRowsDiffer * condition * InputRoundoffOf(i, type)),
           2 * explained,
           fmt::format("the input has a mean of {:.2g} times its spread",
                       condition)};
  }
  return out;
}

Conditioning::Terms Conditioning::TermsOf(
    int32_t event, const std::vector<int32_t>& inputs) const {
  const bool is_mean = IsMean(tree_->calls()[tree_->event(event).call].op);
  const Summary& result = (*pairs_)[event].golden->summary;
  Terms out;
  for (const int32_t i : inputs) {
    const Summary& input = (*pairs_)[i].golden->summary;
    // An input with fewer elements than the result is broadcast. The errors of
    // elements that are summed are independent, so the errors of the sums have
    // the same norm as those of all elements.
    const double share =
        static_cast<double>(result.count) / static_cast<double>(input.count);
    const double scale = std::sqrt(std::max(share, 1.0)) *
                         (is_mean ? std::min(share, 1.0) : 1.0);
    out.norms.push_back(scale * input.l2_norm() / result.l2_norm());
  }
  return out;
}

std::optional<double> Conditioning::ErrorOfTerms(int32_t event) const {
  const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
  const TensorPair& pair = (*pairs_)[event];
  if (!inputs.has_value() || !IsMeasured(pair) ||
      pair.golden->summary.l2_norm() == 0) {
    return std::nullopt;
  }
  const Terms terms = TermsOf(event, *inputs);
  double out = 0;
  for (size_t i = 0; i < inputs->size(); ++i) {
    out += terms.norms[i] * errors_[(*inputs)[i]].value_or(0);
  }
  return out;
}

std::optional<double> Conditioning::ErrorOfFactors(int32_t event) const {
  const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
  const TensorPair& pair = (*pairs_)[event];
  if (!inputs.has_value() || inputs->size() != 2 || !IsMeasured(pair) ||
      pair.golden->summary.l2_norm() == 0) {
    return std::nullopt;
  }
  const Summary& result = pair.golden->summary;
  double out = 0;
  for (const auto& [a, b] : {std::pair((*inputs)[0], (*inputs)[1]),
                             std::pair((*inputs)[1], (*inputs)[0])}) {
    const Summary& factor = (*pairs_)[a].golden->summary;
    // A factor with fewer elements than the result is broadcast.
    const double copies = std::max(1.0, static_cast<double>(result.count) /
                                            static_cast<double>(factor.count));
    out += errors_[a].value_or(0) * std::sqrt(copies) * factor.l2_norm() *
           (*pairs_)[b].golden->summary.abs_max() / result.l2_norm();
  }
  return out;
}

std::optional<double> Conditioning::ErrorOfGradient(int32_t event) const {
  const TensorPair& pair = (*pairs_)[event];
  const auto factor =
      factors_.find(tree_->calls()[tree_->event(event).call].op);
  const std::optional<std::vector<int32_t>> gradients = FloatInputsOf(event);
  if (pair.golden->key.io != Io::kGradWeight || !IsMeasured(pair) ||
      factor == factors_.end() || factor->second == CallTree::kNone ||
      !gradients.has_value() || gradients->size() != 1) {
    return std::nullopt;
  }
  const TensorPair& input = (*pairs_)[factor->second];
  const TensorPair& gradient = (*pairs_)[gradients->front()];
  const std::optional<double> error = errors_[factor->second];
  if (!IsMeasured(input) || !IsFloat(input) || !error.has_value() ||
      gradient.golden->shape.empty()) {
    return std::nullopt;
  }
  // Each element of the gradient is a sum over the rows of both factors.
  const Summary& result = pair.golden->summary;
  const double rows = static_cast<double>(gradient.golden->summary.count) /
                      static_cast<double>(gradient.golden->shape.back());
  const auto width = static_cast<uint64_t>(gradient.golden->shape.back()) *
                     static_cast<uint64_t>(input.golden->shape.back());
  const bool fits = width == result.count &&
                    static_cast<double>(input.golden->summary.count) ==
                        rows * static_cast<double>(input.golden->shape.back());
  if (!fits || result.l2_norm() == 0) return std::nullopt;
  const double condition = input.golden->summary.l2_norm() *
                           gradient.golden->summary.l2_norm() /
                           (std::sqrt(rows) * result.l2_norm());
  return condition * (*error + *errors_[gradients->front()]);
}

std::optional<double> Conditioning::PropagatedError(int32_t event) const {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  if (of.role != Role::kOutput || call.has_parts) return std::nullopt;
  if (call.is_backward) return ErrorOfGradient(event);
  if (IsSum(call.op)) return ErrorOfTerms(event);
  return IsElementwiseProduct(call.op) ? ErrorOfFactors(event) : std::nullopt;
}

Conditioning::ErrorBound Conditioning::BoundOfSum(int32_t event,
                                                  DType type) const {
  const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
  if (!inputs.has_value()) return {};
  const Terms terms = TermsOf(event, *inputs);
  double condition = 0;
  double explained = 0;
  for (size_t i = 0; i < inputs->size(); ++i) {
    condition += terms.norms[i];
    explained += kRowsDiffer * terms.norms[i] * RoundingOf((*inputs)[i], type);
  }
  if (!(condition >= kConditionMin)) return {};
  return {explained, 2 * explained, 2 * explained,
          fmt::format("its terms cancel to 1/{:.2g}", condition)};
}

Conditioning::ErrorBound Conditioning::BoundOfProduct(int32_t event,
                                                      DType type) const {
  const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
  if (!inputs.has_value()) return {};
  const LogicalTensor& result = *(*pairs_)[event].golden;
  ErrorBound out;
  for (const int32_t a : *inputs) {
    for (const int32_t b : *inputs) {
      const LogicalTensor& input = *(*pairs_)[a].golden;
      const LogicalTensor& weight = *(*pairs_)[b].golden;
      const int64_t summands = SummandsOf(input, weight, result);
      if (a == b || summands == 0) continue;
      // The norm of the result if no sum cancels.
      const double expected = input.summary.l2_norm() *
                              weight.summary.l2_norm() /
                              std::sqrt(static_cast<double>(summands));
      const double condition = expected / result.summary.l2_norm();
      if (!(condition >= kConditionMin)) continue;
      const double error = std::max(RoundingOf(a, type), RoundingOf(b, type));
      const double explained = kRowsDiffer * condition * error;
      if (explained <= out.error) continue;
      out = {explained, 2 * explained, 2 * explained,
             fmt::format("its sums cancel to 1/{:.2g}", condition),
             // The errors of a row have the direction in which it cancels.
             static_cast<int64_t>(result.summary.count) / result.shape.back()};
    }
  }
  return out;
}

bool Conditioning::IsRotary(int32_t event) const {
  const int32_t number = tree_->event(event).call;
  const CallTree::Call& call = tree_->calls()[number];
  const Summary& own = (*pairs_)[event].golden->summary;
  if (call.last - call.first > kCallTensorsMax) return false;
  for (int32_t i = call.first; i <= call.last; ++i) {
    const CallTree::Event& of = tree_->event(i);
    const TensorPair& other = (*pairs_)[i];
    if (i == event || of.call != number || of.role != Role::kOutput ||
        !IsMeasured(other) || other.golden->summary.count != own.count) {
      continue;
    }
    // The squares of a sine and of a cosine add up to 1.
    const double squares = std::pow(own.l2_norm(), 2) +
                           std::pow(other.golden->summary.l2_norm(), 2);
    if (std::fabs(squares / static_cast<double>(own.count) - 1) < 0x1p-7) {
      return true;
    }
  }
  return false;
}

Conditioning::ErrorBound Conditioning::BoundOfAngles(int32_t event) const {
  const int32_t number = tree_->event(event).call;
  const CallTree::Call& call = tree_->calls()[number];
  const Summary& result = (*pairs_)[event].golden->summary;
  constexpr double kFloat32Roundoff = 0x1p-24;
  static_assert(InfoOf(DType::kFloat32).digits == 24);
  if (IsSineOrCosine(call.op)) {
    const std::optional<std::vector<int32_t>> inputs = FloatInputsOf(event);
    if (!inputs.has_value() || inputs->size() != 1) return {};
    const int32_t input = inputs->front();
    const Summary& angles = (*pairs_)[input].golden->summary;
    const double error = RoundingOf(input, DType::kUnspecified);
    if (error == 0 || angles.abs_max() < kAngleMin) return {};
    // A sine differs by no more than its angle does.
    const double roundoff = InputRoundoffOf(input, DType::kUnspecified);
    return {error * angles.l2_norm() / result.l2_norm(),
            kInputRoundingsMax * roundoff * angles.abs_max(),
            2 * error * angles.l2_norm() / result.l2_norm(),
            fmt::format("angles up to {:.6g}", angles.abs_max())};
  }
  if (!IsRotary(event)) return {};
  const TensorPair* positions = nullptr;
  for (int32_t i = call.first; i < event; ++i) {
    const TensorPair& input = (*pairs_)[i];
    if (tree_->event(i).call != number ||
        tree_->event(i).role != Role::kInput || input.golden == nullptr ||
        RoundedDigits(input.golden->dtype) != 0) {
      continue;
    }
    if (positions != nullptr) return {};
    positions = &input;
  }
  if (positions == nullptr || !IsMeasured(*positions) ||
      !HasEqualBytes(*positions) ||
      result.count % positions->golden->summary.count != 0) {
    return {};
  }
  const double largest = positions->golden->summary.abs_max();
  if (largest < kAngleMin) return {};
  const double explained = largest * kFloat32Roundoff;
  // Most frequencies are low, and the sines of their angles are exact.
  return {explained, 2 * explained, explained / 4,
          fmt::format("angles up to {:.6g}", largest),
          // The errors of a position are mostly those of its largest angle.
          static_cast<int64_t>(positions->golden->summary.count)};
}

}  // namespace msitd::compare
