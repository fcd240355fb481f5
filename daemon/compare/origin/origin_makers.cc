// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/origin/origin.h"
#include "daemon/compare/origin/row_error.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"

// Which makers follow from others, and what is known of choices.
namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// Tensors before a choice that may have its scores, and how far back they are.
constexpr size_t kScoresMax = 8;
constexpr int32_t kScoresReach = 256;
// Scores of more choices have near ones by chance.
constexpr int64_t kScoresWidthMax = 256;

bool IsInteger(DType type) {
  return InfoOf(type).digits == 0 && !IsFloatingPoint(type) &&
         !IsComplex(type) && type != DType::kBool && type != DType::kInt8 &&
         type != DType::kUint8;
}

}  // namespace

bool OriginFinder::HasCopiesThatDiffer(int32_t event) const {
  const TensorPair& pair = (*pairs_)[static_cast<size_t>(event)];
  return pair.golden != nullptr && pair.target != nullptr &&
         ((pair.golden->assembly != nullptr &&
           !pair.golden->assembly->difference.empty()) ||
          (pair.target->assembly != nullptr &&
           !pair.target->assembly->difference.empty()));
}

bool OriginFinder::IsFlip(int32_t event) const {
  const auto found = choices_.find(event);
  return found != choices_.end() && found->second.is_flip;
}

bool OriginFinder::HasFloatInput(int32_t event) const {
  const int32_t call = tree_->event(event).call;
  for (int32_t i = tree_->calls()[call].first; i < event; ++i) {
    if (tree_->event(i).call == call && tree_->event(i).role == Role::kInput &&
        IsFloatingPoint((*pairs_)[i].golden->dtype)) {
      return true;
    }
  }
  return false;
}

bool OriginFinder::IsUndecidedChoice(int32_t event) const {
  const TensorPair& pair = (*pairs_)[static_cast<size_t>(event)];
  const Source& source = sources_[event];
  // What code computes by itself is often made of other integers.
  if (tree_->event(event).role != Role::kOutput || !HasFloatInput(event)) {
    return false;
  }
  if (pair.target == nullptr || !IsInteger(pair.golden->dtype) ||
      !IsInteger(pair.target->dtype) ||
      pair.golden->shape != pair.target->shape) {
    return false;
  }
  const auto found = choices_.find(event);
  if (found != choices_.end() && found->second.choice == Choice::kUnexplained) {
    return false;
  }
  // What is computed from equal tensors was not chosen by noise.
  return source.event != CallTree::kNone && source.error > 0 &&
         source.error <= noises_[source.event];
}

void OriginFinder::SetChoice(Choice choice, size_t scores) {
  const auto next = static_cast<int32_t>(errors_.size());
  choices_[next] = {choice, static_cast<int32_t>(scores),
                    choice == Choice::kExplained && HasPassed(scores)};
}

std::vector<OriginFinder::Selection> OriginFinder::SelectionsOfNext() {
  std::vector<Selection> out;
  if (!has_order_) return out;
  const auto next = static_cast<int32_t>(errors_.size());
  PlantTree();
  if (static_cast<size_t>(next) >= tree_->event_count()) return out;
  const TensorPair& selected = (*pairs_)[next];
  const int32_t scope = tree_->calls()[tree_->event(next).call].parent;
  if (tree_->event(next).role != Role::kInput || scope == CallTree::kNone ||
      selected.golden->shape.empty() || selected.target->shape.empty()) {
    return out;
  }
  const auto rows_of = [this](int32_t event) -> uint64_t {
    const TensorPair& pair = (*pairs_)[event];
    if (pair.target == nullptr || pair.golden->shape.empty() ||
        pair.golden->shape != pair.target->shape ||
        !IsFloatingPoint(pair.golden->dtype) ||
        !IsFloatingPoint(pair.target->dtype) || pair.golden->shape.back() < 2) {
      return 0;
    }
    return ElementCount(pair.golden->shape) /
           static_cast<uint64_t>(pair.golden->shape.back());
  };
  // Once something fails, what follows need not be looked at.
  Advance();
  if (ScopeOf(scope).has_failed) return out;
  std::optional<int32_t> from;
  const int32_t end =
      std::max(tree_->calls()[scope].first, next - kScoresReach);
  // What the code itself was given, which rows are of.
  for (int32_t i = tree_->calls()[scope].first; i < next && !from; ++i) {
    const TensorPair& pair = (*pairs_)[i];
    if (tree_->event(i).call == scope && tree_->event(i).role == Role::kInput &&
        rows_of(i) > 1 &&
        pair.golden->shape.back() == selected.golden->shape.back() &&
        pair.target->shape.back() == selected.target->shape.back() &&
        pair.golden->dtype == selected.golden->dtype &&
        pair.target->dtype == selected.target->dtype) {
      from = i;
    }
  }
  if (!from.has_value()) return out;
  for (int32_t i = next - 1; i > end && out.size() < kScoresMax; --i) {
    const int32_t call = tree_->event(i).call;
    if (tree_->event(i).role != Role::kOutput ||
        tree_->calls()[call].parent != scope || rows_of(i) != rows_of(*from) ||
        (*pairs_)[i].golden->shape.back() > kScoresWidthMax ||
        (*pairs_)[i].golden->shape.back() >= selected.golden->shape.back()) {
      continue;
    }
    out.push_back({static_cast<size_t>(*from), static_cast<size_t>(i)});
  }
  return out;
}

void OriginFinder::SetFollowsFromFlip() {
  choices_[static_cast<int32_t>(errors_.size())] = {
      Choice::kExplained, CallTree::kNone, /*is_flip=*/true};
}

std::optional<size_t> OriginFinder::FlipOfNext() {
  if (!has_order_ || choices_.empty()) return std::nullopt;
  const auto next = static_cast<int32_t>(errors_.size());
  if (static_cast<size_t>(next) >= tree_->event_count()) return std::nullopt;
  const CallTree::Event& of = tree_->event(next);
  if (of.same != CallTree::kNone) {
    if (!IsFlip(of.same)) return std::nullopt;
    return static_cast<size_t>(of.same);
  }
  const CallTree::Call& call = tree_->calls()[of.call];
  if (of.role == Role::kInput) {
    Advance();
    const Scope& around = ScopeOf(call.parent);
    if (around.flip == CallTree::kNone || around.has_failed) {
      return std::nullopt;
    }
    return static_cast<size_t>(around.flip);
  }
  if (of.role != Role::kOutput || call.has_parts || !call.has_input) {
    return std::nullopt;
  }
  std::optional<size_t> flip;
  for (int32_t i = call.first; i < next; ++i) {
    if (tree_->event(i).call != of.call) continue;
    if (tree_->event(i).role != Role::kInput) continue;
    if (IsFlip(i)) {
      flip = static_cast<size_t>(i);
    } else if (errors_[i] != 0) {
      return std::nullopt;
    }
  }
  return flip;
}

std::vector<size_t> OriginFinder::ScoresOfNext() {
  std::vector<size_t> out;
  if (!has_order_) return out;
  const auto next = static_cast<int32_t>(errors_.size());
  PlantTree();
  if (static_cast<size_t>(next) >= tree_->event_count()) return out;
  const TensorPair& choice = (*pairs_)[next];
  const uint64_t chosen = ElementCount(choice.golden->shape);
  const auto may_be_scores = [&](int32_t event) {
    const TensorPair& pair = (*pairs_)[event];
    if (pair.target == nullptr || !IsFloatingPoint(pair.golden->dtype) ||
        !IsFloatingPoint(pair.target->dtype) || pair.golden->shape.empty() ||
        pair.golden->shape != pair.target->shape) {
      return false;
    }
    const auto width = static_cast<uint64_t>(pair.golden->shape.back());
    if (width < 2) return false;
    const uint64_t rows = ElementCount(pair.golden->shape) / width;
    return rows > 0 && chosen % rows == 0 && chosen / rows <= width;
  };
  const int32_t call = tree_->event(next).call;
  const int32_t end = std::max(0, next - kScoresReach);
  for (const bool is_own : {true, false}) {
    for (int32_t i = next - 1; i >= end && out.size() < kScoresMax; --i) {
      if ((tree_->event(i).call == call) != is_own || !may_be_scores(i)) {
        continue;
      }
      out.push_back(static_cast<size_t>(i));
    }
  }
  return out;
}

std::optional<double> OriginFinder::RoundingsOf(int32_t event) const {
  const TensorPair& pair = (*pairs_)[static_cast<size_t>(event)];
  const double error = errors_[event];
  const double source = sources_[event].error;
  if (pair.target == nullptr || std::isnan(error) || std::isinf(source)) {
    return std::nullopt;
  }
  int digits = 0;
  for (const DType type :
       {pair.golden->dtype, pair.target->dtype, computed_in_[event]}) {
    const int of = RoundedDigits(type);
    if (of > 0 && (digits == 0 || of < digits)) digits = of;
  }
  if (digits == 0) return std::nullopt;
  const double made =
      std::isinf(error)
          ? error
          : std::sqrt(std::max(0.0, (error - source) * (error + source)));
  return std::ldexp(made, digits);
}

bool OriginFinder::FollowsFromOthers(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  if (call.is_backward && is_forward_tainted_) return true;
  // Weights that are recorded behind gradients may be new ones.
  if (of.role == Role::kWeight || of.role == Role::kOther) {
    return is_backward_different_;
  }
  if (of.same != CallTree::kNone) return is_tainted_[of.same];
  // Of a call without inputs on record, it is not known what it was given.
  const auto is_tainted = [this](int32_t scope) {
    const bool is_known =
        scope == CallTree::kNone || tree_->calls()[scope].has_input;
    return ScopeOf(scope).is_tainted || (!is_known && is_forward_tainted_);
  };
  return is_tainted(of.role == Role::kInput ? call.parent : of.call);
}

void OriginFinder::AddTaint(int32_t event) {
  const bool follows = FollowsFromOthers(event);
  follows_.push_back(follows);
  const bool is_equal = errors_[event] == 0;
  const bool is_tainted =
      !is_equal && (follows || verdicts_[event] == v1::FAIL || IsFlip(event) ||
                    IsMade(event, noises_[event]));
  is_tainted_.push_back(is_tainted);
  const bool is_backward = tree_->calls()[tree_->event(event).call].is_backward;
  if (is_backward) {
    is_backward_different_ = is_backward_different_ || !is_equal;
  } else {
    is_forward_tainted_ = is_forward_tainted_ || is_tainted;
  }
}

bool OriginFinder::MayBeFurther(int32_t event) const {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  // What autograd does between hooks is in no scope that they show.
  if (call.is_backward && (of.role != Role::kOutput || call.has_parts)) {
    return false;
  }
  // Calls of an op that one run makes more often may be paired with others.
  if (!lone_ops_.has_value()) {
    lone_ops_.emplace();
    for (const TensorPair& pair : *pairs_) {
      if (pair.golden == nullptr) lone_ops_->insert(pair.target->key.op);
      if (pair.target == nullptr) lone_ops_->insert(pair.golden->key.op);
    }
  }
  return !lone_ops_->contains(call.op);
}

std::optional<FoundMaker> OriginFinder::FurtherMaker() {
  const auto event = static_cast<int32_t>(errors_.size() - 1);
  if (verdicts_.back() != v1::FAIL || std::isnan(errors_.back()) ||
      static_cast<size_t>(event) >= sources_.size()) {
    return std::nullopt;
  }
  const int32_t maker = MakerOf(event, Noise());
  if (maker < 0 || !MayBeFurther(maker) || IsFlip(maker) ||
      IsDrift(event, maker) || follows_[maker] ||
      past_.contains((*pairs_)[maker].golden->group_number()) ||
      !returned_.insert(maker).second) {
    return std::nullopt;
  }
  return Describe(event, maker);
}

}  // namespace msitd::compare
