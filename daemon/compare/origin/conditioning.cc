// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/conditioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/closing_value.h"
#include "daemon/compare/match/op_kind.h"
#include "daemon/compare/origin/pair_facts.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// The rounding errors of a tensor are correlated, because each error of an
// input contributes to many of them. They may change a norm or a mean this many
// times more than independent errors do.
constexpr double kCorrelationMax = 8;
// If the number of independent errors is known, sums of them are within so many
// standard deviations.
constexpr double kDeviationsMax = 3;
// They explain no more than this share, because so few errors could be
// anything.
constexpr double kSpreadMax = 0.25;

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

// Returns the shape of the error of a pair; nullopt if it is not known.
std::optional<ErrorShape> ShapeOf(const TensorPair& pair) {
  if (!pair.target->knows_summary || !pair.golden->knows_summary) {
    return std::nullopt;
  }
  const Summary& golden = pair.golden->summary;
  const Summary& target = pair.target->summary;
  const double norm = golden.l2_norm();
  if (norm == 0 || golden.count != target.count) return std::nullopt;
  const double root = std::sqrt(static_cast<double>(golden.count));
  return ErrorShape{.norm = target.l2_norm() / norm - 1,
                    .mean = (target.mean() - golden.mean()) * root / norm};
}

// Returns whether the pair can differ by rounding errors with an nl2 of
// `error`. Rounding errors are independent of each other and of the values, so
// they change the norm and the mean of a tensor by much less than its elements.
// A wrong scale or offset changes them more. Other reasons for a change are
// `spread`, relative to `error`, and the `inherited` change.
bool MayBeRounding(const TensorPair& pair,
                   const std::optional<ErrorShape>& shape, double error,
                   double spread, double inherited = 0) {
  if (MayHaveMask(pair)) return true;
  if (!shape.has_value()) return false;
  const double of_elements =
      kCorrelationMax /
      std::sqrt(static_cast<double>(ElementCount(pair.golden->shape)));
  const double allowed =
      error * error + std::max(spread, of_elements) * error + inherited;
  return std::fabs(shape->norm) <= allowed && std::fabs(shape->mean) <= allowed;
}

// Returns the change of norm and mean, relative to the error, that sums of so
// many independent errors can cause; 0 if their number is 0.
double SpreadOfSums(int64_t independent) {
  if (independent == 0) return 0;
  return std::min(kDeviationsMax / std::sqrt(static_cast<double>(independent)),
                  kSpreadMax);
}

// Returns the change of the norm or the mean of a pair, whichever is larger; 0
// if it is not known.
double ChangeOf(const TensorPair& pair) {
  const std::optional<ErrorShape> shape = ShapeOf(pair);
  if (!shape.has_value()) return 0;
  return std::max(std::fabs(shape->norm), std::fabs(shape->mean));
}

// Returns whether norm and mean change by at most half of the nl2 that `bounds`
// allow.
bool IsSmallChange(const std::optional<ErrorShape>& shape,
                   const predicate::Predicate& bounds) {
  if (!shape.has_value()) return false;
  RowMetrics metrics;
  metrics.fill(0);
  metrics[static_cast<size_t>(compute::Metric::kMismatchCount)] = 1;
  metrics[static_cast<size_t>(compute::Metric::kNl2)] =
      2 * std::max(std::fabs(shape->norm), std::fabs(shape->mean));
  return bounds.Holds(metrics);
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
  revealed_.clear();
  fails_.clear();
  computed_in_.clear();
  drift_.reset();
  tree_.reset();
  explained_.clear();
  gradient_rows_.clear();
  factors_.clear();
  weight_gradients_.clear();
  largest_gradient_error_ = 0;
  sums_.clear();
  for (const TensorPair& pair : pairs) {
    for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
      if (tensor != nullptr && tensor->key.io == Io::kWeight &&
          weighed_.size() < kWeighedOpsMax) {
        weighed_.insert(tensor->key.op);
      }
    }
  }
}

void Conditioning::Add(std::optional<double> error,
                       std::optional<double> revealed, bool fails,
                       DType computed_in) {
  errors_.push_back(error);
  fails_.push_back(fails);
  revealed_.push_back(revealed);
  computed_in_.push_back(computed_in);
}

std::optional<std::string> Conditioning::Explain(
    const RowMetrics& metrics, const predicate::Predicate& bounds,
    DType computed_in, std::optional<ErrorShape> shape) {
  const auto event = static_cast<int32_t>(errors_.size());
  const TensorPair& pair = (*pairs_)[event];
  may_be_by_sums_ = false;
  if (!may_explain_ || pair.golden == nullptr || pair.target == nullptr ||
      !IsFloat(pair)) {
    return std::nullopt;
  }
  Advance();
  if (static_cast<size_t>(event) >= tree_->event_count()) return std::nullopt;
  const double nl2 = ValueIn(metrics, compute::Metric::kNl2);
  const DType type = CoarsestOf(pair, computed_in);
  const ErrorBound own = BoundOf(event, type);
  if (!shape.has_value()) shape = ShapeOf(pair);
  const bool is_small = IsSmallChange(shape, bounds);
  if (own.error > 0 &&
      (is_small ||
       MayBeRounding(pair, shape, nl2, SpreadOfSums(own.independent))) &&
      IsWithin(metrics, std::min(own.error, kExplainedMax),
               std::min(own.largest, kExplainedMax),
               std::min(own.channel, kExplainedMax))) {
    may_be_by_sums_ = own.independent > 0;
    return fmt::format("ill-conditioned: {}; explains an error up to {:.2g}",
                       own.reason, own.error);
  }
  const ExplainedError from = CarriedTo(event);
  const double carried = std::min(from.Bound(), kExplainedMax);
  // A tensor with the bytes of an explained one has the same error.
  const bool is_same = tree_->event(event).same != CallTree::kNone;
  if (from.error > 0 &&
      (is_same ||
       ((is_small ||
         MayBeRounding(pair, shape, nl2, /*spread=*/0, from.change)) &&
        IsWithin(metrics, carried, std::min(2 * carried, kExplainedMax),
                 2 * carried)))) {
    may_be_by_sums_ = from.is_by_sums;
    return fmt::format(
        "error {:.2g}: computed from {}, which is ill-conditioned", nl2,
        NameOf(from));
  }
  if (IsDrift(event, type, metrics, bounds) &&
      (is_small ||
       MayBeRounding(pair, shape, nl2, SpreadOfSums(RowsOfGradient(event))))) {
    return fmt::format(
        "accumulated error {:.2g}: computed from tensors with errors up to "
        "{:.2g}",
        nl2, drift_->ErrorOfSources(event));
  }
  if (IsClipped(event, shape, metrics, bounds)) {
    return fmt::format(
        "a common factor of {:.6g}: gradients that were clipped have errors up "
        "to {:.2g}",
        1 + shape->norm, largest_gradient_error_);
  }
  if (RoundedDigits(type) == InfoOf(DType::kFloat32).digits &&
      bounds.Holds(Eased(metrics)) && MayFollowStep(event)) {
    return fmt::format(
        "single elements differ by {:.2g}: after an optimizer step",
        metrics[kScaledMaxAbs].value_or(0));
  }
  may_be_by_sums_ = true;
  return std::nullopt;
}

std::optional<std::string> Conditioning::ExplainBySums(
    const RowMetrics& metrics, const RowMetrics& rest) {
  return ExplainRoot(
      metrics,
      fmt::format("ill-conditioned: the rows of the input cancel; its error "
                  "follows from their sums, except for {:.2g}",
                  ValueIn(rest, compute::Metric::kNl2)));
}

std::optional<std::string> Conditioning::ExplainRoot(const RowMetrics& metrics,
                                                     std::string reason) {
  if (!(ValueIn(metrics, compute::Metric::kNl2) <= kExplainedMax)) {
    return std::nullopt;
  }
  sums_.insert(static_cast<int32_t>(errors_.size()));
  return reason;
}

void Conditioning::Advance() {
  if (!tree_.has_value()) {
    tree_.emplace(*pairs_);
    drift_.emplace(*tree_);
    scopes_.assign(tree_->calls().size() + 1, ExplainedError());
    given_.assign(tree_->calls().size(), Given());
  }
  const size_t end = std::min(errors_.size(), tree_->event_count());
  for (size_t i = explained_.size(); i < end; ++i) {
    const auto event = static_cast<int32_t>(i);
    const TensorPair& pair = (*pairs_)[i];
    ExplainedError out = CarriedTo(event);
    const bool is_explained = out.error > 0;
    // A tensor that is equal or that fails has no explained error.
    out.error = revealed_[i].value_or(0);
    const ErrorBound own =
        out.error > 0 && pair.target != nullptr
            ? BoundOf(event, CoarsestOf(pair, computed_in_[i]))
            : ErrorBound();
    if (out.error > 0 && out.error <= own.error) {
      out.root = event;
      out.root_error = out.error;
      out.change = ChangeOf(pair);
      out.is_by_sums = false;
    } else if (sums_.contains(event)) {
      out.root = event;
      out.root_error = out.error;
      out.is_by_sums = true;
      out.change = ChangeOf(pair);
    } else if (!is_explained) {
      out = ExplainedError();
    }
    explained_.push_back(out);
    drift_->Add(revealed_[i], fails_[i]);
    AddToGiven(event);
    const CallTree::Event& of = tree_->event(i);
    if (of.role != Role::kInput && of.role != Role::kOutput) continue;
    if (pair.golden->key.io == Io::kGradWeight) {
      weight_gradients_[tree_->calls()[of.call].op] = event;
      largest_gradient_error_ =
          std::max(largest_gradient_error_, errors_[i].value_or(0));
    }
    if (of.role == Role::kInput) ScopeOf(of.call).Merge(out);
    ScopeOf(tree_->calls()[of.call].parent).Merge(out);
  }
}

Conditioning::ExplainedError Conditioning::CarriedTo(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  if (of.role == Role::kWeight) {
    const int32_t gradient = GradientOfState(event);
    return gradient == CallTree::kNone ? ExplainedError()
                                       : explained_[gradient];
  }
  if (of.role != Role::kInput && of.role != Role::kOutput) return {};
  if (of.same != CallTree::kNone) return explained_[of.same];
  if (const auto bytes = HashesOf((*pairs_)[event])) {
    const auto known = past_bytes_.find({rank_, *bytes});
    if (known != past_bytes_.end()) return known->second;
  }
  const CallTree::Call& call = tree_->calls()[of.call];
  const bool is_made_in_call =
      of.role == Role::kOutput && (call.has_input || call.has_parts);
  const int32_t code = is_made_in_call ? of.call : call.parent;
  ExplainedError out = ScopeOf(code);
  if (call.is_backward) out.Merge(CarriedByForward(event, code));
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

Conditioning::ExplainedError Conditioning::CarriedByForward(int32_t event,
                                                            int32_t call) {
  if (call == CallTree::kNone) return {};
  const CallTree::Call& code = tree_->calls()[call];
  if (code.forward == CallTree::kNone) return {};
  ExplainedError out = ScopeOf(code.forward);
  if (code.has_parts) {
    // Code that has received equal gradients adds no more than the error that
    // its forward pass has received.
    if (drift_->ErrorOfSources(event) == 0) out.error /= kGrowthMax;
    return out;
  }
  // The gradient of a weight has the input as a factor. That of the input
  // depends on it only if the op is not linear, which its name does not show.
  out.error = std::min(out.error, ErrorOfGradient(event).value_or(0));
  return out;
}

int32_t Conditioning::GradientOfState(int32_t event) const {
  const TensorPair& pair = (*pairs_)[event];
  const auto found =
      weight_gradients_.find(tree_->calls()[tree_->event(event).call].op);
  const bool is_gradient =
      pair.golden->key.io == Io::kState && found != weight_gradients_.end() &&
      (*pairs_)[found->second].golden->shape == pair.golden->shape;
  return is_gradient ? found->second : CallTree::kNone;
}

bool Conditioning::IsClipped(int32_t event,
                             const std::optional<ErrorShape>& shape,
                             const RowMetrics& metrics,
                             const predicate::Predicate& bounds) const {
  const double nl2 = ValueIn(metrics, compute::Metric::kNl2);
  if (!shape.has_value() || GradientOfState(event) == CallTree::kNone ||
      !(nl2 <= std::min(largest_gradient_error_, kExplainedMax)) || nl2 == 0) {
    return false;
  }
  const double factor = std::min(std::fabs(shape->norm) / nl2, 1.0);
  const double rest = std::sqrt((1 - factor) * (1 + factor));
  return bounds.Holds(Scaled(metrics, rest));
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
      const std::optional<PairHashes> bytes = HashesOf((*pairs_)[i]);
      if (of.role == Role::kOutput && bytes.has_value() &&
          past_bytes_.size() < kPastInputsMax) {
        ExplainedError& past = past_bytes_[{rank_, *bytes}];
        past = explained_[i];
        past.root = kPast;
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
  const double passed_on =
      std::max(kDriftGrowthMax * drift_->ErrorOfSources(event),
               PropagatedError(event).value_or(0));
  // The result is rounded once in each run.
  const double allowed = passed_on > 0 ? passed_on + 2 * RoundoffOf(type) : 0;
  return ValueIn(metrics, compute::Metric::kNl2) <= allowed &&
         bounds.Holds(EasedByDrift(metrics));
}

void Conditioning::AddToGiven(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  const TensorPair& pair = (*pairs_)[event];
  Given& given = given_[of.call];
  given.differs = given.differs || !HasEqualBytes(pair);
  given.has_weight = given.has_weight || of.role == Role::kWeight;
  const std::vector<int64_t>& shape = pair.golden->shape;
  if (of.role != Role::kInput || shape.empty()) return;
  if (!call.is_backward) {
    const auto [factor, is_new] = factors_.emplace(call.op, event);
    if (!is_new) factor->second = CallTree::kNone;
    return;
  }
  const auto count = static_cast<int64_t>(ElementCount(shape));
  gradient_rows_[call.op] = count == 0 ? 0 : count / shape.back();
}

int64_t Conditioning::RowsOfGradient(int32_t event) const {
  const Io io = (*pairs_)[event].golden->key.io;
  if (io != Io::kGradWeight && io != Io::kState) return 0;
  const auto rows =
      gradient_rows_.find(tree_->calls()[tree_->event(event).call].op);
  return rows == gradient_rows_.end() ? 0 : rows->second;
}

bool Conditioning::MayFollowStep(int32_t event) const {
  const auto first = trained_.lower_bound({rank_, std::string()});
  if (first == trained_.end() || first->first != rank_) return false;
  const CallTree::Event& of = tree_->event(event);
  if (of.role == Role::kOther) return false;
  if (of.role != Role::kOutput) return true;
  const CallTree::Call& call = tree_->calls()[of.call];
  if (call.has_parts) return true;
  const Given& given = given_[of.call];
  if (given.differs) return true;
  // Weights that were not recorded may have changed.
  return !given.has_weight && trained_.contains({rank_, std::string(call.op)});
}

std::string Conditioning::NameOf(const ExplainedError& error) const {
  if (error.root == kPast) return "an earlier token";
  const TensorKey& key = (*pairs_)[error.root].golden->key;
  return fmt::format("{}@{}/{}", key.op, IoName(key.io), key.index);
}

}  // namespace msitd::compare
