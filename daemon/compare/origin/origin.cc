// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "daemon/compare/judge/precision.h"
#include "daemon/compare/origin/call_order.h"
#include "daemon/compare/origin/row_error.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"

namespace msitd::compare {
namespace {

constexpr int32_t kNone = CallTree::kNone;
using Role = CallTree::Role;

v1::DType TypeOf(const LogicalTensor& tensor) {
  return static_cast<v1::DType>(tensor.dtype);
}

bool HasTypesOf(const TensorPair& a, const TensorPair& b) {
  return PrecisionOf(*a.golden) == PrecisionOf(*b.golden) &&
         PrecisionOf(*a.target) == PrecisionOf(*b.target);
}

// Adds a note with the names that only one run has, such as
// `only golden gives it A, B`. Adds nothing if there are none.
void AddOnly(const std::vector<std::string>& names, std::string_view does,
             std::vector<std::string>& notes) {
  if (names.empty()) return;
  notes.push_back(fmt::format("only {} {}", does, fmt::join(names, ", ")));
}

// Adds the ranks whose copies differ.
void DescribeCopies(const TensorPair& pair, v1::Maker& maker) {
  const auto differ = [](const LogicalTensor* tensor) {
    return tensor != nullptr && tensor->assembly != nullptr &&
           !tensor->assembly->difference.empty();
  };
  const bool is_of_target = differ(pair.target);
  const std::vector<int32_t> wrong =
      is_of_target ? WrongCopies(*pair.target->assembly, pair.golden)
                   : WrongCopies(*pair.golden->assembly, nullptr);
  constexpr size_t kRanksMax = 64;
  for (const int32_t rank : wrong) {
    if (static_cast<size_t>(maker.ranks_size()) == kRanksMax) break;
    maker.add_ranks(rank);
  }
}

// Returns error / source. If the source is 0, returns 1 if the error is also 0,
// and +Inf otherwise.
double Ratio(double error, double source) {
  if (source > 0) return error / source;
  return error > 0 ? std::numeric_limits<double>::infinity() : 1;
}

}  // namespace

void OriginFinder::StartGroup(const std::vector<TensorPair>& pairs,
                              bool may_lack_inputs) {
  pairs_ = &pairs;
  may_lack_inputs_ = may_lack_inputs;
  is_lone_.clear();
  is_proven_.clear();
  errors_.clear();
  verdicts_.clear();
  is_unread_.clear();
  call_differences_.reset();
  tree_.reset();
  sources_.clear();
  scopes_.clear();
  copies_.clear();
  makers_.clear();
  noises_.clear();
  computed_in_.clear();
  choices_.clear();
  flips_.clear();
  flip_scopes_.clear();
  lone_flips_.clear();
  flipped_ops_.reset();
  golden_ops_.clear();
  first_backward_ = kNone;
  first_different_ = kNone;
  returned_.clear();
  weights_returned_.clear();
  has_odd_ops_ = false;
  if (rank_.has_value() && is_above_noise_) past_.insert(*rank_);
  is_above_noise_ = false;
  rank_.reset();
}

void OriginFinder::Judge(const RowMetrics& metrics, DType computed_in,
                         v1::ComparisonRow& row) {
  computed_in_.push_back(computed_in);
  const auto next = static_cast<int32_t>(errors_.size());
  const double error = HasCopiesThatDiffer(next) && row.layout_hint().empty()
                           ? std::numeric_limits<double>::infinity()
                       : IsFlip(next) ? std::numeric_limits<double>::infinity()
                                      : ErrorOf(row, metrics, shapes_count_);
  errors_.push_back(error);
  rank_ = row.rank();
  noises_.push_back(row.has_golden() && row.has_target() ? Noise() : 0);
  is_above_noise_ = is_above_noise_ || error > noises_.back();
  verdicts_.push_back(row.verdict());
  const auto choice = choices_.find(next);
  is_proven_.push_back(HasCopiesThatDiffer(next) ||
                       row.target().nan_count() > row.golden().nan_count() ||
                       (choice != choices_.end() &&
                        choice->second.choice == Choice::kUnexplained));
  is_unread_.push_back(row.unread() && std::isnan(error));
  is_lone_.push_back(!may_lack_inputs_ && row.has_golden() &&
                     !row.has_target() && !row.for_want_of_ranks());
  if (row.io() == v1::IO_WEIGHT && error > 0 &&
      wrong_weights_.size() < kWrongWeightsMax) {
    double& worst = wrong_weights_[{row.rank(), row.op()}];
    worst = std::max(worst, error);
  }
  if (row.verdict() != v1::FAIL || std::isnan(error) || row.unread()) return;
  if (!has_order_) return;
  Advance();
  const auto event = static_cast<int32_t>(errors_.size() - 1);
  // Tensors that only the target has are not events.
  if (static_cast<size_t>(event) >= sources_.size()) return;
  const Source& source = sources_[event];
  if (!source.is_unread && (!source.is_unknown || source.error > 0)) {
    row.set_amplification(Ratio(error, source.error));
    if (const auto roundings = RoundingsOf(event)) {
      row.set_roundings(*roundings);
    }
  }
  row.set_origin(OriginOf(event, MakerOf(event, Noise())));
}

void OriginFinder::PassOver() {
  errors_.push_back(std::numeric_limits<double>::quiet_NaN());
  noises_.push_back(0);
  computed_in_.push_back(DType::kUnspecified);
  verdicts_.push_back(v1::VERDICT_UNSPECIFIED);
  is_unread_.push_back(false);
  is_lone_.push_back(false);
  is_proven_.push_back(false);
}

void OriginFinder::PlantTree() {
  if (tree_.has_value()) return;
  tree_.emplace(*pairs_);
  scopes_.resize(tree_->calls().size() + 1);
  // The pairs of a golden tensor are adjacent.
  has_copies_ =
      std::adjacent_find(pairs_->begin(), pairs_->end(),
                         [](const TensorPair& a, const TensorPair& b) {
                           return a.golden != nullptr && a.golden == b.golden;
                         }) != pairs_->end();
}

void OriginFinder::Advance() {
  PlantTree();
  const size_t end = std::min(errors_.size(), tree_->event_count());
  for (size_t i = sources_.size(); i < end; ++i) {
    sources_.push_back(SourceOf(static_cast<int32_t>(i)));
    lone_flips_.push_back(FlipAroundLone(static_cast<int32_t>(i)));
    NoteChanges(static_cast<int32_t>(i));
    AddToScopes(static_cast<int32_t>(i));
  }
}

OriginFinder::Source OriginFinder::Worst(std::initializer_list<int32_t> events,
                                         bool is_unknown,
                                         bool is_unread) const {
  Source source;
  source.is_unknown = is_unknown || is_unread;
  source.is_unread = is_unread;
  for (const int32_t event : events) {
    if (event == kNone || is_unread_[event]) continue;
    if (source.event != kNone && errors_[event] <= source.error) continue;
    source.event = event;
    source.error = errors_[event];
  }
  return source;
}

OriginFinder::Source OriginFinder::SourceOf(int32_t event) {
  const CallTree::Event& of = tree_->event(event);
  if (of.role == Role::kWeight || of.role == Role::kOther) return {};
  const auto with_others = [](Source source, const Scope& scope) {
    source.has_others = scope.has_others;
    return source;
  };
  // The entire error of an explained choice follows from its scores.
  if (const auto choice = choices_.find(event);
      choice != choices_.end() && !choice->second.is_flip &&
      choice->second.choice == Choice::kExplained) {
    return {choice->second.scores, std::numeric_limits<double>::infinity()};
  }
  // The same bytes were recorded before, at another point.
  if (of.same != kNone) return Worst({of.same}, false, is_unread_[of.same]);
  const CallTree::Call& call = tree_->calls()[of.call];
  const Scope around = WithForward(call.parent, ScopeOf(call.parent));
  if (of.role == Role::kInput) {
    return with_others(
        Worst({around.worst}, around.worst == kNone && around.has_unknown,
              around.has_unread),
        around);
  }
  const Scope own = WithForward(of.call, GivenTo(event));
  if (!call.has_input && !call.has_parts) {
    // The inputs were not recorded. Most likely they are the tensors before
    // this one.
    Source source = Worst({around.worst, own.worst_weight},
                          around.worst == kNone && around.has_unknown,
                          around.has_unread || own.has_unread);
    source.has_others = around.has_others || own.has_others;
    return source;
  }
  const bool is_unknown = call.has_lone_parts
                              ? own.has_unknown_input
                              : own.has_unknown && !call.has_matched_parts;
  return with_others(
      Worst({own.worst, own.worst_weight}, is_unknown, own.has_unread), own);
}

std::string OriginFinder::CopyOf(int32_t event) const {
  const TensorPair& pair = (*pairs_)[event];
  const TensorKey& key = pair.target->key;
  return fmt::format("{} {} {}", tree_->event(event).call, key.call, key.op);
}

OriginFinder::Scope OriginFinder::GivenTo(int32_t event) {
  const int32_t call = tree_->event(event).call;
  Scope given = ScopeOf(call);
  if (!has_copies_ || (*pairs_)[event].target == nullptr ||
      tree_->calls()[call].has_parts) {
    return given;
  }
  const auto copy = copies_.find(CopyOf(event));
  if (copy == copies_.end()) return given;
  if (copy->second.worst != kNone) given.worst = copy->second.worst;
  if (copy->second.worst_weight != kNone) {
    given.worst_weight = copy->second.worst_weight;
  }
  given.has_unread = given.has_unread || copy->second.has_unread;
  return given;
}

void OriginFinder::AddToScopes(int32_t event) {
  // An input that only one run passes has no error. If the output of its call
  // fails because of it, DescribeMade reports this.
  if (IsLoneInput(event)) return;
  const CallTree::Event& of = tree_->event(event);
  const bool is_known = !std::isnan(errors_[event]);
  // A tensor that is allowed to exist in only one run leaves nothing unknown.
  const bool is_allowed =
      (*pairs_)[event].target == nullptr && verdicts_[event] == v1::SKIPPED;
  const int32_t maker =
      errors_[event] > 0 ? MakerOf(event, noises_[event]) : kNobody;
  const bool is_other =
      !IsFlip(maker) && (maker != kNobody || verdicts_[event] == v1::FAIL);
  const auto add = [&](Scope& scope, int32_t Scope::*worst) {
    scope.has_failed = scope.has_failed || verdicts_[event] == v1::FAIL;
    scope.has_others = scope.has_others || is_other;
    if (is_unread_[event]) {
      scope.has_unread = true;
    } else if (!is_known) {
      scope.has_unknown = scope.has_unknown || !is_allowed;
    } else if (scope.*worst == kNone ||
               errors_[event] > errors_[scope.*worst]) {
      scope.*worst = event;
    }
  };
  Scope& own = ScopeOf(of.call);
  Scope* const copy =
      has_copies_ && (*pairs_)[event].target != nullptr &&
              (of.role == Role::kInput || of.role == Role::kWeight)
          ? &copies_[CopyOf(event)]
          : nullptr;
  if (of.role == Role::kWeight) {
    add(own, &Scope::worst_weight);
    if (copy != nullptr) add(*copy, &Scope::worst_weight);
    return;
  }
  if (of.role == Role::kInput) {
    add(own, &Scope::worst);
    own.has_unknown_input = own.has_unknown_input ||
                            (!is_known && !is_unread_[event] && !is_allowed);
    if (copy != nullptr) add(*copy, &Scope::worst);
  }
  add(ScopeOf(tree_->calls()[of.call].parent), &Scope::worst);
}

double OriginFinder::Noise() const {
  const TensorPair& pair = (*pairs_)[errors_.size() - 1];
  return std::max(
      {RoundingErrorOf(TypeOf(*pair.golden)),
       RoundingErrorOf(TypeOf(*pair.target)),
       RoundingErrorOf(static_cast<v1::DType>(computed_in_.back()))});
}

bool OriginFinder::IsMade(int32_t event, double noise) const {
  const double error = errors_[event];
  const double source = sources_[event].error;
  if (std::isnan(error) || error <= 0) return false;
  // Infinite errors cannot be distinguished, so a source with an infinite error
  // explains any error.
  if (Ratio(error, source) < kAmplificationMax || std::isinf(source)) {
    return false;
  }
  return error > noise || (source == 0 && verdicts_[event] == v1::FAIL);
}

int32_t OriginFinder::MakerOf(int32_t event, double noise) {
  // Sources precede the tensors that are computed from them. One pass in order
  // therefore finds the causes of all events: each event is a cause itself, or
  // has the cause of its source.
  std::vector<int32_t>& makers = makers_[noise];
  for (auto i = static_cast<int32_t>(makers.size()); i <= event; ++i) {
    const Source& source = sources_[i];
    int32_t maker = kNobody;
    if (IsFlip(i)) {
      maker = i;
    } else if (!is_proven_[i] && errors_[i] > 0 && HasBytesOfPastFlip(i)) {
      maker = kPastFlip;
    } else if (const auto flip =
                   is_proven_[i] ? std::nullopt : FlipBehind(i, makers);
               flip.has_value() && IsMade(i, noise)) {
      maker = source.has_others ? kNotKnown : *flip;
    } else if (IsMade(i, noise)) {
      maker = source.is_unknown || IsUndecidedChoice(i) ? kNotKnown : i;
    } else if (errors_[i] > 0 && source.event != kNone) {
      maker = makers[source.event];
      const bool has_other_cause = source.has_others || is_proven_[i];
      if (IsFlip(maker) && has_other_cause) maker = kNotKnown;
    }
    makers.push_back(maker);
  }
  return makers[event];
}

bool OriginFinder::IsDrift(int32_t event, int32_t maker) const {
  if (maker == kNobody) return true;
  if (IsFlip(maker)) return false;
  // The cause increased an existing error, and later ops increased it further.
  return maker >= 0 && sources_[maker].error > 0 &&
         errors_[event] > kAmplificationMax * errors_[maker];
}

v1::Origin OriginFinder::OriginOf(int32_t event, int32_t maker) const {
  if (maker == kNotKnown) return v1::UNKNOWN_INPUTS;
  if (IsFlip(maker)) return v1::FLIPPED;
  if (maker == event) return v1::CREATED;
  if (IsDrift(event, maker)) return v1::DRIFTED;
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Event& by = tree_->event(maker);
  const bool is_inside = of.role == Role::kOutput && by.role != Role::kWeight &&
                         by.call != of.call &&
                         tree_->IsWithin(by.call, of.call);
  return is_inside ? v1::INSIDE : v1::PASSED_ON;
}

bool OriginFinder::IsModelInput(size_t pair) {
  if (!has_order_) return false;
  PlantTree();
  if (pair >= tree_->event_count()) return false;
  const CallTree::Event& of = tree_->event(pair);
  const CallTree::Call& call = tree_->calls()[of.call];
  return of.role == Role::kInput && of.call == tree_->first_call() &&
         !call.is_backward && call.parent == kNone;
}

std::optional<FoundMaker> OriginFinder::Maker() {
  MSITD_CHECK(!errors_.empty());
  const auto event = static_cast<int32_t>(errors_.size() - 1);
  if (verdicts_.back() != v1::FAIL || std::isnan(errors_.back()) ||
      static_cast<size_t>(event) >= sources_.size()) {
    return std::nullopt;
  }
  const int32_t maker = MakerOf(event, Noise());
  if (maker >= 0) {
    returned_.insert(maker);
    IsNewWeight(maker);
  }
  return Describe(event, maker);
}

FoundMaker OriginFinder::Describe(int32_t event, int32_t maker) {
  FoundMaker found;
  v1::Maker& out = found.maker;
  found.pair = static_cast<size_t>(event);
  out.set_input_error(sources_[event].error);
  out.set_output_error(errors_[event]);
  if (maker == kNotKnown) {
    out.set_kind(v1::Maker::NOT_KNOWN);
    out.set_op((*pairs_)[event].golden->key.op);
    out.set_note(WhyNotKnown(event));
  } else if (maker == kPastFlip) {
    out.set_kind(v1::Maker::NOT_KNOWN);
    out.set_op((*pairs_)[event].golden->key.op);
    out.set_note(
        fmt::format("choices differ as their scores do: {}", FlipOfLast()));
  } else if (IsDrift(event, maker)) {
    DescribeDrift(event, out);
  } else {
    found.pair = static_cast<size_t>(maker);
    out.set_input_error(sources_[maker].error);
    out.set_output_error(errors_[maker]);
    DescribeMade(maker, out);
    FindOddOps();
    found.is_independent =
        tree_->event(maker).role == Role::kWeight || IsOfEqualInputs(maker);
    if (out.kind() != v1::Maker::FLIP && out.kind() != v1::Maker::COPIES) {
      AddCall(maker, found);
    }
  }
  found.verdict = verdicts_[found.pair];
  const auto roundings = RoundingsOf(static_cast<int32_t>(found.pair));
  if (roundings.has_value()) out.set_roundings(*roundings);
  return found;
}

std::string OriginFinder::WhyNotKnown(int32_t event) const {
  const CallTree::Event& of = tree_->event(event);
  const CallTree::Call& call = tree_->calls()[of.call];
  for (int32_t at = event; at != kNone; at = sources_[at].event) {
    if (IsFlip(at)) {
      return "what it is made of differs by choices that differ as their "
             "scores "
             "do, and by more";
    }
    if (!IsUndecidedChoice(at)) continue;
    const TensorKey& key = (*pairs_)[at].golden->key;
    return fmt::format(
        "{} {}/{} may have been chosen by scores that differ by rounding, and "
        "these are not on record",
        key.op, IoName(key.io), key.index);
  }
  if (of.role != Role::kOutput || !call.has_parts || call.has_matched_parts ||
      call.has_lone_parts) {
    return "what it is made of was not compared";
  }
  return fmt::format("parts of {} have no counterpart", call.op);
}

void OriginFinder::DescribeDrift(int32_t event, v1::Maker& maker) const {
  maker.set_kind(v1::Maker::DRIFT);
  double largest = 0;
  double first = errors_[event];
  for (int32_t at = event; at != kNone; at = sources_[at].event) {
    if (errors_[at] > 0) first = errors_[at];
    const double ratio = Ratio(errors_[at], sources_[at].error);
    if (!std::isinf(ratio) && ratio > largest) {
      largest = ratio;
      maker.set_op((*pairs_)[at].golden->key.op);
    }
  }
  maker.set_input_error(first);
  if (largest > 0) {
    maker.set_note(fmt::format("most in {}, x{:.2g}", maker.op(), largest));
  }
}

void OriginFinder::DescribeMade(int32_t event, v1::Maker& maker) const {
  const CallTree::Event& of = tree_->event(event);
  const std::vector<CallTree::Call>& calls = tree_->calls();
  const CallTree::Call& call = calls[of.call];
  if (IsFlip(event)) {
    maker.set_kind(v1::Maker::FLIP);
    maker.set_op(std::string(call.op));
    return;
  }
  if (HasCopiesThatDiffer(event)) {
    maker.set_kind(v1::Maker::COPIES);
    maker.set_op(std::string(call.op));
    DescribeCopies((*pairs_)[event], maker);
    return;
  }
  if (of.role == Role::kOutput && !LoneInputsOf(of.call).empty()) {
    DescribeCaller(of.call, maker);
    maker.set_note(LoneInputsOf(of.call));
    return;
  }
  if (of.role == Role::kWeight || of.role == Role::kOther ||
      (of.role == Role::kOutput && (!call.has_parts || call.has_lone_parts))) {
    maker.set_kind(of.role == Role::kWeight ? v1::Maker::WEIGHT
                                            : v1::Maker::OP);
    maker.set_op(std::string(call.op));
    maker.set_note(NotesOf(event, of.call, kNone));
    return;
  }
  const bool is_input = of.role == Role::kInput;
  const int32_t scope = is_input ? call.parent : of.call;
  const int32_t after =
      DescribeCode(scope, event, is_input ? of.call : kNone, maker);
  maker.set_note(NotesOf(event, scope, after));
}

int32_t OriginFinder::DescribeCode(int32_t scope, int32_t event, int32_t before,
                                   v1::Maker& maker) const {
  const std::vector<CallTree::Call>& calls = tree_->calls();
  const int32_t after = tree_->LastPartBefore(scope, event);
  if (scope == kNone && after == kNone) {
    maker.set_kind(v1::Maker::MODEL_INPUTS);
    return after;
  }
  maker.set_kind(v1::Maker::OWN_CODE);
  if (scope != kNone) maker.set_op(std::string(calls[scope].op));
  if (after != kNone) maker.set_after(std::string(calls[after].op));
  if (before != kNone) maker.set_before(std::string(calls[before].op));
  return after;
}

void OriginFinder::DescribeCaller(int32_t call, v1::Maker& maker) const {
  const CallTree::Call& of = tree_->calls()[call];
  DescribeCode(of.parent, of.first, call, maker);
}

void OriginFinder::AddCall(int32_t event, FoundMaker& found) const {
  const CallTree::Event& of = tree_->event(event);
  if (of.role != Role::kInput && of.role != Role::kOutput) return;
  // An input is made by the code of the surrounding call.
  const int32_t call =
      of.role == Role::kInput ? tree_->calls()[of.call].parent : of.call;
  if (call == kNone) return;
  const CallTree::Call& made_in = tree_->calls()[call];
  // An output shows which target call it belongs to.
  const int32_t first = of.role == Role::kOutput ? event : made_in.first;
  for (int32_t i = first; i != kNone && i <= event; ++i) {
    if (tree_->event(i).call != call || (*pairs_)[i].target == nullptr)
      continue;
    found.call_pair = i;
    DescribeCaller(call, found.caller);
    return;
  }
}

bool OriginFinder::IsLoneInput(int32_t event) const {
  return is_lone_[event] && tree_->IsLoneInput(static_cast<size_t>(event));
}

std::string OriginFinder::LoneInputsOf(int32_t call) const {
  if (may_lack_inputs_) return "";
  std::vector<std::string> notes;
  AddOnly(tree_->LoneGoldenInputs(call), "golden gives it", notes);
  AddOnly(tree_->LoneTargetInputs(call), "target gives it", notes);
  return fmt::format("{}", fmt::join(notes, "; "));
}

std::string OriginFinder::NotesOf(int32_t event, int32_t scope,
                                  int32_t after) const {
  std::vector<std::string> notes;
  const CallTree::Event& of = tree_->event(event);
  const TensorPair& pair = (*pairs_)[event];
  const CallTree::Call& call = tree_->calls()[of.call];
  const int32_t source = sources_[event].event;
  const DType golden_type = PrecisionOf(*pair.golden);
  const DType target_type = PrecisionOf(*pair.target);
  if (golden_type != target_type &&
      (source == kNone || !HasTypesOf(pair, (*pairs_)[source]))) {
    notes.push_back(fmt::format("{} against {} from here on",
                                DTypeName(target_type),
                                DTypeName(golden_type)));
  }
  for (int32_t i = call.first; of.role == Role::kInput && i <= call.last; ++i) {
    const TensorPair& other = (*pairs_)[i];
    if (tree_->event(i).call == of.call && i != event &&
        other.target != nullptr && HasHash(*other.golden) &&
        other.golden->hash == pair.target->hash &&
        other.target->hash == pair.golden->hash) {
      notes.push_back(fmt::format("inputs {} and {} changed places",
                                  pair.golden->key.index,
                                  other.golden->key.index));
    }
  }
  if (of.role != Role::kWeight && (of.role == Role::kInput || call.has_parts)) {
    AddCallNotes(event, scope, after, notes);
  }
  if (of.role == Role::kInput) {
    std::string order =
        CallOrderNote(*tree_, *pairs_, static_cast<size_t>(event));
    if (!order.empty()) notes.push_back(std::move(order));
  }
  if (of.role == Role::kOutput && !call.has_input &&
      (!call.has_parts || !tree_->has_inputs())) {
    notes.push_back("or the code before it: its inputs are not on record");
  }
  if (of.role != Role::kWeight &&
      wrong_weights_.contains(
          {pair.golden->group_number(), pair.golden->key.op})) {
    notes.push_back("its weights differ");
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace msitd::compare
