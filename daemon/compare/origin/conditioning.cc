// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/conditioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/closing_value.h"
#include "daemon/compare/match/op_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// Condition numbers below this are covered by the default bounds.
constexpr double kConditionMin = 4;
// Condition numbers are computed for whole tensors. Those of single rows may be
// this many times larger.
constexpr double kRowsDiffer = 2;
// The rounding errors of a tensor are correlated, because each error of an
// input contributes to many of them. They may change a norm or a mean this many
// times more than independent errors do.
constexpr double kCorrelationMax = 8;
// Calls with more tensors than this are not explained.
constexpr int32_t kCallTensorsMax = 64;
// Smaller angles are covered by the default bounds.
constexpr double kAngleMin = 100;

bool IsMeasured(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         pair.golden->knows_summary && pair.target->knows_summary &&
         pair.golden->kind == RecordKind::kTensor &&
         pair.golden->summary.count > 0 &&
         pair.golden->summary.finite_count() == pair.golden->summary.count;
}

bool IsFloat(const TensorPair& pair) {
  return IsFloatingPoint(pair.golden->dtype) &&
         IsFloatingPoint(pair.target->dtype);
}

bool HasEqualBytes(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         HashesAgree(*pair.golden, *pair.target);
}

// Returns the coarsest of both types of a pair and the type that it was
// computed in.
DType CoarsestOf(const TensorPair& pair, DType computed_in) {
  return Coarser(Coarser(pair.golden->dtype, pair.target->dtype), computed_in);
}

// Returns the unit roundoff of a type; 0 if it does not round.
double RoundoffOf(DType type) {
  const int digits = RoundedDigits(type);
  return digits == 0 ? 0 : std::ldexp(1, -digits);
}

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

double ValueIn(const RowMetrics& metrics, compute::Metric metric) {
  return metrics[static_cast<size_t>(metric)].value_or(0);
}

// Returns whether the metrics satisfy the bounds of the default policy, scaled
// to an nl2 of `error`. `largest` is the bound of scaled_max_abs and `channel`
// that of the median channel.
bool IsWithin(const RowMetrics& metrics, double error, double largest,
              double channel) {
  const auto is_below = [&](std::optional<double> value, double bound) {
    return value.has_value() && *value <= bound;
  };
  return ValueIn(metrics, compute::Metric::kNanMismatchCount) == 0 &&
         ValueIn(metrics, compute::Metric::kInfMismatchCount) == 0 &&
         is_below(metrics[static_cast<size_t>(compute::Metric::kNl2)], error) &&
         is_below(metrics[kScaledMaxAbs], largest) &&
         ValueIn(metrics, compute::Metric::kRowNl2P50) <= 2 * error &&
         ValueIn(metrics, compute::Metric::kChannelNl2P50) <= channel;
}

// Returns whether the tensors may be scores to which a mask was added. The
// summary of such scores is that of the mask.
bool MayHaveMask(const TensorPair& pair) {
  return pair.target != nullptr && ClosingValuesOf(pair).has_value();
}

// Returns whether the pair can differ by rounding errors with an nl2 of
// `error`. Rounding errors are independent of each other and of the values, so
// they change the norm and the mean of a tensor by much less than its elements.
// A wrong scale or offset changes them more.
bool MayBeRounding(const TensorPair& pair, double error) {
  if (MayHaveMask(pair)) return true;
  if (!pair.target->knows_summary || !pair.golden->knows_summary) return false;
  const Summary& golden = pair.golden->summary;
  const Summary& target = pair.target->summary;
  const double norm = golden.l2_norm();
  if (norm == 0 || golden.count != target.count) return false;
  const double root = std::sqrt(static_cast<double>(golden.count));
  const double allowed = error * error + kCorrelationMax * error / root;
  const double mean = (target.mean() - golden.mean()) * root / norm;
  return std::fabs(target.l2_norm() / norm - 1) <= allowed &&
         std::fabs(mean) <= allowed;
}

// Returns metrics that satisfy the bounds of the default policy if `metrics`
// satisfy them with kSingleErrorMax times the bound of scaled_max_abs.
RowMetrics Eased(const RowMetrics& metrics) {
  RowMetrics out = metrics;
  std::optional<double>& largest = out[kScaledMaxAbs];
  if (largest.has_value()) *largest /= kSingleErrorMax;
  return out;
}

}  // namespace

void Conditioning::StartGroup(const std::vector<TensorPair>& pairs,
                              bool is_first_window) {
  pairs_ = &pairs;
  may_explain_ = is_first_window;
  rank_ = 0;
  for (const TensorPair& pair : pairs) {
    if (pair.golden == nullptr) continue;
    rank_ = pair.golden->group_number();
    break;
  }
  errors_.clear();
  computed_in_.clear();
  drift_.reset();
  tree_.reset();
  explained_.clear();
}

void Conditioning::Add(std::optional<double> error, DType computed_in) {
  errors_.push_back(error);
  computed_in_.push_back(computed_in);
}

std::optional<std::string> Conditioning::Explain(
    const RowMetrics& metrics, const predicate::Predicate& bounds,
    DType computed_in) {
  const auto event = static_cast<int32_t>(errors_.size());
  const TensorPair& pair = (*pairs_)[event];
  if (!may_explain_ || pair.golden == nullptr || pair.target == nullptr ||
      !IsFloat(pair)) {
    return std::nullopt;
  }
  Advance();
  if (static_cast<size_t>(event) >= tree_->event_count()) return std::nullopt;
  const double nl2 = ValueIn(metrics, compute::Metric::kNl2);
  const DType type = CoarsestOf(pair, computed_in);
  const bool may_be_rounding = MayBeRounding(pair, nl2);
  const ErrorBound own = BoundOf(event, type);
  if (own.error > 0 && may_be_rounding &&
      IsWithin(metrics, std::min(own.error, kExplainedMax),
               std::min(own.largest, kExplainedMax),
               std::min(own.channel, kExplainedMax))) {
    return fmt::format("ill-conditioned: {}; explains an error up to {:.2g}",
                       own.reason, own.error);
  }
  const ExplainedError from = CarriedTo(event);
  const double carried = std::min(from.Bound(), kExplainedMax);
  if (from.error > 0 && may_be_rounding &&
      IsWithin(metrics, carried, std::min(2 * carried, kExplainedMax),
               2 * carried)) {
    return fmt::format(
        "error {:.2g}: computed from {}, which is ill-conditioned", nl2,
        NameOf(from));
  }
  if (may_be_rounding && IsDrift(event, type, metrics, bounds)) {
    return fmt::format(
        "accumulated error {:.2g}: computed from tensors with errors up to "
        "{:.2g}",
        nl2, drift_->ErrorOfSources(event));
  }
  if (RoundedDigits(type) == InfoOf(DType::kFloat32).digits &&
      bounds.Holds(Eased(metrics)) && MayFollowStep(event)) {
    return fmt::format(
        "single elements differ by {:.2g}: after an optimizer step",
        metrics[kScaledMaxAbs].value_or(0));
  }
  return std::nullopt;
}

void Conditioning::Advance() {
  if (!tree_.has_value()) {
    tree_.emplace(*pairs_);
    drift_.emplace(*tree_);
    scopes_.assign(tree_->calls().size() + 1, ExplainedError());
  }
  const size_t end = std::min(errors_.size(), tree_->event_count());
  for (size_t i = explained_.size(); i < end; ++i) {
    const auto event = static_cast<int32_t>(i);
    const TensorPair& pair = (*pairs_)[i];
    ExplainedError out = CarriedTo(event);
    const bool is_explained = out.error > 0;
    // A tensor that is equal or that fails has no explained error.
    out.error = errors_[i].value_or(0);
    if (out.error > 0 && pair.target != nullptr &&
        out.error <= BoundOf(event, CoarsestOf(pair, computed_in_[i])).error) {
      out.root = event;
      out.root_error = out.error;
    } else if (!is_explained) {
      out = ExplainedError();
    }
    explained_.push_back(out);
    drift_->Add(errors_[i]);
    const CallTree::Event& of = tree_->event(i);
    if (of.role != Role::kInput && of.role != Role::kOutput) continue;
    if (of.role == Role::kInput) ScopeOf(of.call).Merge(out);
    ScopeOf(tree_->calls()[of.call].parent).Merge(out);
  }
}

Conditioning::ExplainedError Conditioning::CarriedTo(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  if (of.role != Role::kInput && of.role != Role::kOutput) return {};
  if (of.same != CallTree::kNone) return explained_[of.same];
  if (const auto known = past_bytes_.find(BytesOf(event));
      known != past_bytes_.end()) {
    return known->second;
  }
  const CallTree::Call& call = tree_->calls()[of.call];
  const bool is_made_in_call =
      of.role == Role::kOutput && (call.has_input || call.has_parts);
  ExplainedError out = ScopeOf(is_made_in_call ? of.call : call.parent);
  // A sum has the errors of its terms. A mask among them would hide those of
  // the others.
  if (is_made_in_call && IsSum(call.op) && !MayHaveMask((*pairs_)[event])) {
    out.error = std::min(out.error, ErrorOfTerms(event).value_or(0));
  }
  // Code can pass tensors from a cache to its parts.
  if (of.role == Role::kInput && !call.is_backward) {
    const auto past = past_.find({rank_, NameOfInput(event)});
    if (past != past_.end()) out.Merge(past->second);
  }
  return out;
}

Conditioning::Bytes Conditioning::BytesOf(int32_t event) const {
  const TensorPair& pair = (*pairs_)[event];
  if (pair.target == nullptr || !HasHash(*pair.golden) ||
      !HasHash(*pair.target)) {
    return {};
  }
  return {static_cast<uint64_t>(rank_), pair.golden->hash.low,
          pair.golden->hash.high, pair.target->hash.low,
          pair.target->hash.high};
}

std::string Conditioning::NameOfInput(int32_t event) const {
  const TensorKey& key = (*pairs_)[event].golden->key;
  return fmt::format("{}/{}", key.op, key.index);
}

void Conditioning::EndGroup(bool is_whole) {
  if (!is_whole) return;
  if (tree_.has_value()) {
    Advance();
    for (size_t i = 0; i < explained_.size(); ++i) {
      const auto event = static_cast<int32_t>(i);
      const CallTree::Event& of = tree_->event(i);
      if (explained_[i].error == 0) continue;
      const Bytes bytes = BytesOf(event);
      if (of.role == Role::kOutput && bytes != Bytes() &&
          past_bytes_.size() < kPastInputsMax) {
        past_bytes_[bytes] = explained_[i];
        past_bytes_[bytes].root = kPast;
      }
      if (of.role != Role::kInput || tree_->calls()[of.call].is_backward) {
        continue;
      }
      const std::pair key(rank_, NameOfInput(event));
      if (past_.size() >= kPastInputsMax && !past_.contains(key)) continue;
      ExplainedError past = explained_[i];
      past.root = kPast;
      // Other tensors in the cache can have larger errors than this input, up
      // to that of the root.
      past.error = past.root_error;
      past_[key].Merge(past);
    }
  }
  for (size_t i = 0; i < errors_.size(); ++i) {
    const TensorPair& pair = (*pairs_)[i];
    if (pair.golden == nullptr || pair.golden->key.io != Io::kGradWeight ||
        errors_[i].value_or(0) == 0 || trained_.size() >= kTrainedOpsMax) {
      continue;
    }
    trained_.emplace(rank_, pair.golden->key.op);
  }
}

bool Conditioning::IsDrift(int32_t event, DType type, const RowMetrics& metrics,
                           const predicate::Predicate& bounds) const {
  // The default bounds of other types are far from their rounding errors.
  const int digits = RoundedDigits(type);
  if (digits != InfoOf(DType::kFloat16).digits &&
      digits != InfoOf(DType::kBfloat16).digits) {
    return false;
  }
  return ValueIn(metrics, compute::Metric::kNl2) <=
             MeasuredDrift::kGrowthMax * drift_->ErrorOfSources(event) &&
         bounds.Holds(MeasuredDrift::Eased(metrics));
}

bool Conditioning::MayFollowStep(int32_t event) const {
  const auto first = trained_.lower_bound({rank_, std::string()});
  if (first == trained_.end() || first->first != rank_) return false;
  const CallTree::Event& of = tree_->event(event);
  if (of.role == Role::kOther) return false;
  if (of.role != Role::kOutput) return true;
  const CallTree::Call& call = tree_->calls()[of.call];
  if (call.has_parts) return true;
  bool has_weight = false;
  for (int32_t i = 0; i < event; ++i) {
    const CallTree::Event& other = tree_->event(i);
    if (other.call != of.call) continue;
    if (!HasEqualBytes((*pairs_)[i])) return true;
    has_weight = has_weight || other.role == Role::kWeight;
  }
  // Weights that were not recorded may have changed.
  return !has_weight && trained_.contains({rank_, std::string(call.op)});
}

std::string Conditioning::NameOf(const ExplainedError& error) const {
  if (error.root == kPast) return "an earlier token";
  const TensorKey& key = (*pairs_)[error.root].golden->key;
  return fmt::format("{}@{}/{}", key.op, IoName(key.io), key.index);
}

double Conditioning::RoundingOf(int32_t input, DType type) const {
  return std::min(errors_[input].value_or(0),
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
    const double explained = kRowsDiffer * condition * RoundingOf(i, type);
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
             fmt::format("its sums cancel to 1/{:.2g}", condition)};
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
          fmt::format("angles up to {:.6g}", largest)};
}

}  // namespace msitd::compare
