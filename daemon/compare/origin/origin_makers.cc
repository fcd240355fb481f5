// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/calls/torch_function.h"
#include "daemon/compare/judge/basis.h"
#include "daemon/compare/origin/origin.h"
#include "daemon/compare/origin/row_error.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"

// The parts of OriginFinder that find further causes, and that handle choices.
namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// Maximum number of tensors that are tried as the scores of a choice, and of
// events between them and the choice.
constexpr size_t kScoresMax = 8;
constexpr int32_t kScoresReach = 256;
// Among more scores than this, some are nearly equal by chance.
constexpr int64_t kNearWidthMax = 256;

// Returns whether a type may have choices. Integers of 8 bits are quantized
// values.
bool IsInteger(DType type) {
  return InfoOf(type).digits == 0 && !IsFloatingPoint(type) &&
         !IsComplex(type) && type != DType::kBool && type != DType::kInt8 &&
         type != DType::kUint8;
}

// Adds the names of all ops of which `op` is a part according to its name.
void AddWholes(std::string_view op, std::set<std::string_view>& out) {
  for (size_t dot = op.rfind('.'); dot != std::string_view::npos;
       dot = op.rfind('.')) {
    op = op.substr(0, dot);
    if (!out.insert(op).second) return;
  }
}

// Returns whether a name ends with the type of a module, such as
// `Module.layers.2.Linear` of msprobe.
bool EndsInType(std::string_view op) {
  const size_t dot = op.rfind('.');
  return dot != std::string_view::npos && dot + 1 < op.size() &&
         op[dot + 1] >= 'A' && op[dot + 1] <= 'Z';
}

// Returns whether a tensor with the same bytes is the same result. Small
// tensors and integers are often equal by chance.
bool MayComeAgain(const TensorPair& pair) {
  constexpr uint64_t kElementsMin = 64;
  return pair.target != nullptr && IsFloatingPoint(pair.golden->dtype) &&
         ElementCount(pair.golden->shape) >= kElementsMin;
}

std::string_view WithoutType(std::string_view op) {
  return op.substr(0, op.rfind('.'));
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

bool OriginFinder::IsFlip(int32_t maker) const {
  if (maker == kPastFlip) return true;
  const auto found = choices_.find(maker);
  return found != choices_.end() && found->second.is_flip;
}

bool OriginFinder::IsMadeByCode(int32_t event) const {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  if (call.is_backward) return false;
  return of.role == Role::kInput ||
         (of.role == Role::kOutput && (call.has_parts || !call.has_input));
}

std::optional<int32_t> OriginFinder::FlipBehind(
    int32_t event, const std::vector<int32_t>& makers) const {
  if (lone_flips_[event] != kNobody) return lone_flips_[event];
  if (!IsMadeByCode(event)) return std::nullopt;
  const Source& source = sources_[event];
  if (source.event != CallTree::kNone && IsFlip(makers[source.event])) {
    return makers[source.event];
  }
  // A flip can only have changed the state of code that it has reached, and ops
  // without parts have none. Code outside of all calls is not known by a name.
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  const int32_t code = of.role == Role::kInput ? call.parent : of.call;
  const auto past = past_flips_.find(
      (*pairs_)[static_cast<size_t>(event)].golden->group_number());
  const bool has_state = of.role == Role::kInput || call.has_parts;
  return past != past_flips_.end() && has_state && code != CallTree::kNone &&
                 past->second.ops.contains(tree_->calls()[code].op)
             ? std::optional(kPastFlip)
             : std::nullopt;
}

bool OriginFinder::HasBytesOfPastFlip(int32_t event) const {
  const CallTree::Event& of = tree_->event(event);
  // Everything else has sources of its own token.
  const bool is_from_outside =
      of.role == Role::kInput && sources_[event].event == CallTree::kNone &&
      tree_->calls()[of.call].parent == CallTree::kNone;
  const TensorPair& pair = (*pairs_)[static_cast<size_t>(event)];
  const auto past = past_flips_.find(pair.golden->group_number());
  if (!is_from_outside || past == past_flips_.end() || !MayComeAgain(pair)) {
    return false;
  }
  const std::optional<PairHashes> hashes = HashesOf(pair);
  return hashes.has_value() && past->second.hashes.contains(*hashes);
}

int32_t OriginFinder::FlipIn(int32_t call) {
  const auto own = flip_scopes_.find(call);
  if (own != flip_scopes_.end()) return own->second;
  const int32_t worst = ScopeOf(call).worst;
  if (worst == CallTree::kNone || errors_[worst] == 0) return kNobody;
  const int32_t maker = MakerOf(worst, noises_[worst]);
  return IsFlip(maker) ? maker : kNobody;
}

int32_t OriginFinder::FlipAroundLone(int32_t event) {
  if (flips_.empty() && past_flips_.empty()) return kNobody;
  // Weights do not depend on choices. A tensor of both runs has a counterpart.
  // An exception is a tensor of a function: names of functions do not show the
  // calling module, so the counterpart may belong to another call.
  const Role role = tree_->event(event).role;
  const TensorPair& pair = (*pairs_)[static_cast<size_t>(event)];
  const bool has_both = pair.golden != nullptr && pair.target != nullptr;
  int32_t call = tree_->event(event).call;
  if ((has_both && !IsTorchFunction(tree_->calls()[call].op)) ||
      (role != Role::kInput && role != Role::kOutput)) {
    return kNobody;
  }
  bool is_lone = false;
  for (; call != CallTree::kNone; call = tree_->calls()[call].parent) {
    if (is_lone && tree_->calls()[call].is_matched) break;
    is_lone = is_lone || !tree_->calls()[call].is_matched;
  }
  return is_lone ? FlipIn(call) : kNobody;
}

std::string OriginFinder::NameOf(int32_t maker) const {
  if (maker == kPastFlip) {
    return past_flips_.at(rank_.value_or(0)).first + " at an earlier token";
  }
  const TensorKey& key = (*pairs_)[static_cast<size_t>(maker)].golden->key;
  return fmt::format("{} {}/{}", key.op, IoName(key.io), key.index);
}

std::string OriginFinder::FlipOfLast() {
  return NameOf(MakerOf(static_cast<int32_t>(errors_.size() - 1), Noise()));
}

std::optional<std::string> OriginFinder::FlipOfLone() {
  if (!has_order_ || (flips_.empty() && past_flips_.empty())) {
    return std::nullopt;
  }
  Advance();
  const auto last = static_cast<int32_t>(errors_.size() - 1);
  if (static_cast<size_t>(last) < tree_->event_count()) {
    const int32_t flip = IsFlip(last) ? last : lone_flips_[last];
    return flip == kNobody ? std::nullopt : std::optional(NameOf(flip));
  }
  const TensorKey& key = (*pairs_)[static_cast<size_t>(last)].target->key;
  if (key.io != Io::kInput && key.io != Io::kOutput) return std::nullopt;
  FindFlippedOps();
  if (flipped_ops_->empty()) return std::nullopt;
  std::string_view op = key.op;
  // The names of functions do not show by which module they were called.
  if (IsTorchFunction(op)) return NameOf(flipped_ops_->begin()->second);
  for (size_t dot = op.rfind('.'); dot != std::string_view::npos;
       dot = op.rfind('.')) {
    op = op.substr(0, dot);
    if (!golden_ops_.contains(op)) continue;
    // Only the code that makes the call can have chosen it.
    const auto found = flipped_ops_->find(op);
    return found == flipped_ops_->end() ? std::nullopt
                                        : std::optional(NameOf(found->second));
  }
  return std::nullopt;
}

void OriginFinder::FindFlippedOps() {
  if (flipped_ops_.has_value()) return;
  flipped_ops_.emplace();
  for (size_t i = 0; i < tree_->calls().size(); ++i) {
    const std::string_view op = tree_->calls()[i].op;
    golden_ops_.insert(op);
    const int32_t flip = FlipIn(static_cast<int32_t>(i));
    if (flip != kNobody) flipped_ops_->emplace(op, flip);
  }
}

void OriginFinder::EndGroup(bool is_whole) {
  if (!is_whole || !has_order_ || !rank_.has_value() || !tree_.has_value()) {
    return;
  }
  if (flips_.empty() && !past_flips_.contains(*rank_)) return;
  Advance();
  flipped_ops_.reset();
  golden_ops_.clear();
  FindFlippedOps();
  PastFlips& past = past_flips_[*rank_];
  if (past.first.empty()) past.first = first_flip_;
  // A token begins with results of the one before it. These are among its last
  // tensors.
  past.hashes.clear();
  for (auto i = static_cast<int32_t>(sources_.size()); i-- > 0;) {
    if (past.hashes.size() >= kPastFlippedTensorsMax) break;
    if (!(errors_[i] > noises_[i]) || !IsFlip(MakerOf(i, noises_[i]))) continue;
    const TensorPair& pair = (*pairs_)[static_cast<size_t>(i)];
    const auto hashes = HashesOf(pair);
    if (hashes.has_value() && MayComeAgain(pair)) past.hashes.insert(*hashes);
  }
  for (const auto& [op, flip] : *flipped_ops_) {
    if (past_op_count_ == kPastFlippedOpsMax) return;
    past_op_count_ += past.ops.emplace(op).second ? 1 : 0;
  }
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
  // Integers that code between ops computes are often derived from other
  // integers, and not chosen by scores.
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
  // If the sources are equal, the choice does not differ because of noise.
  return source.event != CallTree::kNone && source.error > 0 &&
         source.error <= noises_[source.event];
}

void OriginFinder::SetChoice(Choice choice, size_t scores, bool is_flip) {
  const auto next = static_cast<int32_t>(errors_.size());
  choices_[next] = {
      choice, static_cast<int32_t>(scores),
      is_flip && choice != Choice::kUnexplained && HasPassed(scores)};
  if (!IsFlip(next)) return;
  flip_scopes_[tree_->calls()[tree_->event(next).call].parent] = next;
  if (flips_.empty()) first_flip_ = NameOf(next);
  flips_.push_back(next);
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
      selected.golden->shape.empty()) {
    return out;
  }
  // If only the golden run made the call, the target run selected no rows.
  const auto is_like = [](const LogicalTensor* some, const LogicalTensor& all) {
    return some == nullptr ||
           (!some->shape.empty() && some->shape.back() == all.shape.back() &&
            some->dtype == all.dtype);
  };
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
  // If the code has already received a tensor that fails, its selections are
  // not judged.
  Advance();
  if (ScopeOf(scope).has_failed) return out;
  std::optional<int32_t> from;
  const int32_t end =
      std::max(tree_->calls()[scope].first, next - kScoresReach);
  // Finds the input of the code that the rows may have been selected from.
  for (int32_t i = tree_->calls()[scope].first; i < next && !from; ++i) {
    const TensorPair& pair = (*pairs_)[i];
    if (tree_->event(i).call == scope && tree_->event(i).role == Role::kInput &&
        rows_of(i) > 0 && is_like(selected.golden, *pair.golden) &&
        is_like(selected.target, *pair.target)) {
      from = i;
    }
  }
  if (!from.has_value()) return out;
  for (int32_t i = next - 1; i > end && out.size() < kScoresMax; --i) {
    const int32_t call = tree_->event(i).call;
    if (tree_->event(i).role != Role::kOutput ||
        tree_->calls()[call].parent != scope || rows_of(i) != rows_of(*from) ||
        (*pairs_)[i].golden->shape.back() > kNearWidthMax ||
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

std::optional<size_t> OriginFinder::FlipOfNext() const {
  const TensorPair& next = (*pairs_)[errors_.size()];
  for (const int32_t flip : flips_) {
    const TensorPair& other = (*pairs_)[static_cast<size_t>(flip)];
    if (HashesAgree(*next.golden, *other.golden) &&
        HashesAgree(*next.target, *other.target)) {
      return static_cast<size_t>(flip);
    }
  }
  return std::nullopt;
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
    // If the call itself has possible scores, no others are considered.
    if (!out.empty()) break;
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

void OriginFinder::NoteChanges(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  if (of.role == Role::kWeight || errors_[event] == 0) return;
  if (tree_->calls()[of.call].is_backward && first_backward_ == CallTree::kNone)
    first_backward_ = event;
  const bool is_different =
      errors_[event] > noises_[event] || verdicts_[event] == v1::FAIL;
  if (is_different && first_different_ == CallTree::kNone) {
    first_different_ = event;
  }
}

void OriginFinder::FindOddOps() {
  if (std::exchange(has_odd_ops_, true)) return;
  lone_ops_.clear();
  other_weights_.clear();
  wholes_.clear();
  typed_wholes_.clear();
  for (const TensorPair& pair : *pairs_) {
    const TensorKey& key = (pair.golden ? pair.golden : pair.target)->key;
    AddWholes(key.op, wholes_);
    if (EndsInType(key.op)) AddWholes(WithoutType(key.op), typed_wholes_);
    const bool is_lone = pair.golden == nullptr || pair.target == nullptr;
    if (is_lone) lone_ops_.insert(key.op);
    const bool is_weight = key.io == Io::kWeight || key.io == Io::kState;
    if (is_weight && !is_lone && !HashesAgree(*pair.golden, *pair.target)) {
      other_weights_.insert(key.op);
    }
  }
}

bool OriginFinder::HasPartsByName(std::string_view op) const {
  return wholes_.contains(op) ||
         (EndsInType(op) && typed_wholes_.contains(WithoutType(op)));
}

// Returns whether the event is a weight that has not been returned yet. Records
// it as returned.
bool OriginFinder::IsNewWeight(int32_t event) {
  if (tree_->event(event).role != Role::kWeight) return false;
  const TensorPair& pair = (*pairs_)[event];
  // Without hashes, it is not known whether two weights are the same one.
  if (!HasHash(*pair.golden) || !HasHash(*pair.target)) return true;
  return weights_returned_
      .emplace(HashText(pair.golden->hash), HashText(pair.target->hash))
      .second;
}

bool OriginFinder::IsOfEqualInputs(int32_t event) const {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  if (of.role != Role::kOutput || call.is_backward || call.has_parts ||
      !call.has_input || !LoneInputsOf(of.call).empty() ||
      other_weights_.contains(call.op) ||
      wrong_weights_.contains(
          {(*pairs_)[event].golden->group_number(), std::string(call.op)})) {
    return false;
  }
  for (int32_t i = call.first; i < event; ++i) {
    const CallTree::Event& other = tree_->event(i);
    if (other.call != of.call || other.role != Role::kInput) continue;
    const TensorPair& pair = (*pairs_)[i];
    if (pair.target == nullptr || HasCopiesThatDiffer(i) ||
        !HashesAgree(*pair.golden, *pair.target)) {
      return false;
    }
  }
  return true;
}

bool OriginFinder::MayBeFurther(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  FindOddOps();
  // If one run calls an op more often, its calls may be paired wrongly.
  if (lone_ops_.contains(call.op)) return false;
  if (of.role != Role::kWeight) {
    return !HasPartsByName(call.op) && IsOfEqualInputs(event);
  }
  const TensorPair& pair = (*pairs_)[event];
  if (!HasHash(*pair.golden) || !HasHash(*pair.target)) return false;
  // A weight that is recorded after a gradient that differs may have been
  // updated. So may a state, or a weight that its op has already used, after
  // any tensor that differs.
  const auto is_behind = [event](int32_t other) {
    return other != CallTree::kNone && other < event;
  };
  const bool is_used = is_behind(call.first);
  const bool may_change = pair.golden->key.io == Io::kState || is_used;
  if (is_behind(first_backward_) || (may_change && is_behind(first_different_)))
    return false;
  return IsNewWeight(event);
}

std::optional<FoundMaker> OriginFinder::FurtherMaker() {
  const auto event = static_cast<int32_t>(errors_.size() - 1);
  if (verdicts_.back() != v1::FAIL || std::isnan(errors_.back()) ||
      static_cast<size_t>(event) >= sources_.size()) {
    return std::nullopt;
  }
  const int32_t maker = MakerOf(event, Noise());
  if (maker < 0 || IsFlip(maker) || IsDrift(event, maker) ||
      past_.contains((*pairs_)[maker].golden->group_number()) ||
      returned_.contains(maker) || !MayBeFurther(maker)) {
    return std::nullopt;
  }
  returned_.insert(maker);
  return Describe(event, maker);
}

void OriginFinder::AddCallNotes(int32_t event, int32_t scope, int32_t after,
                                std::vector<std::string>& notes) const {
  if (!call_differences_.has_value()) {
    call_differences_.emplace(*tree_, *pairs_);
  }
  for (std::string& note :
       call_differences_->NotesOn(scope, after, event, may_lack_inputs_)) {
    notes.push_back(std::move(note));
  }
}

}  // namespace msitd::compare
