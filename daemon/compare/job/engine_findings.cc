// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/argument_difference.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/judge/judge_basis.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/origin/equal_tensors.h"
#include "daemon/compare/origin/rank_order.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

bool IsInteger(const v1::ComparisonRow& row) {
  const auto is_integer = [](v1::DType type) {
    const auto dtype = static_cast<DType>(type);
    return !IsFloatingPoint(dtype) && !IsComplex(dtype);
  };
  return is_integer(row.golden().dtype()) && is_integer(row.target().dtype());
}

// Adds to the note which tensors of their own runs the tensors of a cause are
// equal to.
void AddEqualTensors(const TensorGroup& group, size_t pair, v1::Maker& maker) {
  switch (maker.kind()) {
    case v1::Maker::OP:
    case v1::Maker::WEIGHT:
    case v1::Maker::OWN_CODE:
    case v1::Maker::MODEL_INPUTS:
      break;
    default:
      return;
  }
  if (group.pairs[pair].golden == nullptr ||
      group.pairs[pair].target == nullptr) {
    return;
  }
  const std::string note = EqualTensorsNote(group.pairs, pair);
  if (note.empty()) return;
  maker.set_note(maker.note().empty() ? note : maker.note() + "; " + note);
}

}  // namespace

bool ComparisonEngine::HidesPartsOf(const v1::Maker& maker,
                                    const TensorKey& row) const {
  const Selector& selector = plan_.selector;
  if (maker.kind() == v1::Maker::MODEL_INPUTS) return !selector.HasOp(".");
  if (maker.kind() != v1::Maker::OWN_CODE) return false;
  const bool is_backward = row.io == Io::kGradOutput ||
                           row.io == Io::kGradInput ||
                           row.io == Io::kGradWeight;
  // The caller caused the difference of this output by the arguments that it
  // passed to the op.
  const bool is_given = row.op == maker.before() && row.io == Io::kOutput;
  if (is_given) return false;
  if (!selector.HasIo(is_backward ? Io::kGradOutput : Io::kInput) ||
      !selector.HasIo(is_backward ? Io::kGradInput : Io::kOutput)) {
    return true;
  }
  // The filter includes parts of the op if it selects any name below the op.
  return !selector.HasOp(maker.op() + ".");
}

void ComparisonEngine::FindMaker(const TensorGroup& group,
                                 const v1::ComparisonRow& row,
                                 const std::string& bytes) {
  if (!row.has_golden() || !row.has_target()) return;
  if (group.window > 0) {
    if (!findings_.WantsMaker(row)) return;
    Findings::Failure failure;
    failure.maker.set_kind(v1::Maker::NOT_KNOWN);
    // An empty op would mean that the order of the run is not known.
    failure.maker.set_op(row.op());
    failure.maker.set_note(fmt::format(
        "this rank and token has more than {} tensors, so they are compared in "
        "parts, and what this one is made of is in an earlier part",
        kGroupTensorsMax));
    failure.position = static_cast<int32_t>(row_numbers_.size() - 1);
    failure.failed = failure.position;
    MSITD_CHECK(failure.maker.mutable_row()->ParseFromString(bytes));
    findings_.SetMaker(row, std::move(failure));
    return;
  }
  const bool is_further = findings_.WantsFurtherMaker(row);
  if (!is_further && !findings_.WantsMaker(row)) return;
  const std::optional<FoundMaker> found =
      is_further ? origins_.FurtherMaker() : origins_.Maker();
  if (!found.has_value()) return;
  Findings::Failure failure;
  failure.maker = found->maker;
  std::vector<NumberDifference> arguments;
  const TensorPair& pair = group.pairs[found->pair];
  if (HidesPartsOf(found->maker, pair.golden->key)) {
    if (is_further) return;
    v1::Maker unknown;
    unknown.set_kind(v1::Maker::NOT_KNOWN);
    unknown.set_op(pair.golden->key.op);
    unknown.set_input_error(found->maker.input_error());
    unknown.set_output_error(found->maker.output_error());
    unknown.set_note("the filter may leave out the op that made it");
    failure.maker = std::move(unknown);
  } else {
    arguments = BlameArguments(group, *found, failure.maker);
    // If the arguments differ, the cause is now the code that passes them.
    const bool is_own_code = failure.maker.kind() == v1::Maker::OWN_CODE;
    if (is_further && is_own_code) return;
    failure.is_independent = found->is_independent && !is_own_code;
    if (IsOfOwnScores(group, found->pair, failure.maker)) {
      if (is_further) return;
      failure.is_independent = false;
    }
  }
  AddEqualTensors(group, found->pair, failure.maker);
  ExplainMaker(group, found->pair, arguments, failure.maker);
  failure.position = static_cast<int32_t>(found->pair);
  failure.failed = static_cast<int32_t>(row_numbers_.size() - 1);
  v1::ComparisonRow& shown = *failure.maker.mutable_row();
  if (failure.position == failure.failed) {
    MSITD_CHECK(shown.ParseFromString(bytes));
  } else {
    DescribePair(pair, plan_.golden_run, plan_.target_run, shown);
    shown.set_row(row_numbers_[found->pair]);
    shown.set_verdict(found->verdict);
    if (found->maker.kind() == v1::Maker::FLIP ||
        found->maker.kind() == v1::Maker::COPIES) {
      const auto reason = reasons_.find(found->pair);
      if (reason != reasons_.end()) shown.set_reason(reason->second);
    }
  }
  if (is_further) {
    findings_.AddMaker(row, std::move(failure));
  } else {
    findings_.SetMaker(row, std::move(failure));
  }
}

std::string ComparisonEngine::DifferenceOf(const v1::ComparisonRow& row,
                                           const std::string& difference) {
  if (!difference.empty()) return difference;
  return row.verdict() == v1::FAIL
             ? row.reason().substr(0, row.reason().find(';'))
             : "other bytes";
}

absl::StatusOr<v1::InputDifference> ComparisonEngine::DescribeInputs(
    const TensorPair& pair, const std::string& difference) {
  v1::InputDifference out;
  out.set_difference(DifferenceOf(row_, difference));
  if (!findings_.IsFirstInputDifference(row_)) return out;
  const auto choice =
      token_choices_.Explain(pair, row_, {*golden_, *target_}, observer_);
  if (absl::IsCancelled(choice.status())) return choice.status();
  // Logits that cannot be read explain nothing.
  if (choice.ok()) out.set_choice(*choice);
  return out;
}

bool ComparisonEngine::HasOtherIntegers(const TensorGroup& group, size_t pair,
                                        const Verification& verification,
                                        const std::string& difference,
                                        const v1::ComparisonRow& row,
                                        bool has_equal_values) {
  // A rule that names the op defines which inputs are acceptable.
  const bool is_by_name =
      verification.rule >= 0 &&
      !plan_.policy.RuleText(static_cast<size_t>(verification.rule))
           .starts_with("*: ");
  if (is_by_name && row.verdict() == v1::PASS) return false;
  return IsOtherModelInput(group, pair, difference, row, has_equal_values);
}

bool ComparisonEngine::IsOtherModelInput(const TensorGroup& group, size_t pair,
                                         const std::string& difference,
                                         const v1::ComparisonRow& row,
                                         bool has_equal_values) {
  return group.window == 0 && row.has_golden() && row.has_target() &&
         !has_equal_values && IsInteger(row) && origins_.IsModelInput(pair) &&
         (row.verdict() == v1::FAIL || !difference.empty() ||
          HasOtherHash(row));
}

void ComparisonEngine::JudgeModelInput(const TensorGroup& group, size_t pair,
                                       const Verification& verification,
                                       const std::string& difference,
                                       bool has_equal_values,
                                       v1::ComparisonRow& row) {
  if (row.verdict() != v1::PASS ||
      !HasOtherIntegers(group, pair, verification, difference, row,
                        has_equal_values)) {
    return;
  }
  row.set_verdict(v1::FAIL);
  row.set_reason("integers that the model is given count exactly: " +
                 DifferenceOf(row, difference));
}

std::vector<NumberDifference> ComparisonEngine::BlameArguments(
    const TensorGroup& group, const FoundMaker& found, v1::Maker& maker) {
  if (found.call_pair < 0) return {};
  const TensorPair& call = group.pairs[static_cast<size_t>(found.call_pair)];
  absl::StatusOr<ArgumentDifferences> difference = FindArgumentDifferences(
      *golden_, call.golden->key, *target_, call.target->key,
      [this] { return observer_.Check(); });
  std::string note = difference.ok()
                         ? difference->text
                         : "its arguments could not be read: " +
                               std::string(Message(difference.status()));
  if (note.empty()) return {};
  if (!maker.note().empty()) note += "; " + maker.note();
  // Unless the difference is certain, the op itself may be wrong.
  if (difference.ok() && difference->is_certain &&
      maker.kind() == v1::Maker::OP) {
    v1::Maker caller = found.caller;
    caller.set_input_error(maker.input_error());
    caller.set_output_error(maker.output_error());
    if (maker.has_roundings()) caller.set_roundings(maker.roundings());
    maker = std::move(caller);
  }
  maker.set_note(std::move(note));
  if (!difference.ok()) return {};
  return std::move(difference->numbers);
}

absl::Status ComparisonEngine::OrderRanks(const GroupMatcher& matcher) {
  if (!findings_.WantsOrder() || plan_.matching.by_request()) {
    return absl::OkStatus();
  }
  const std::vector<int32_t> ranks = findings_.FailingRanks();
  RankOrder order;
  size_t count = 0;
  for (const int32_t rank : ranks) {
    const GroupKey key{findings_.token(), rank};
    if (!matcher.groups().Has(key)) continue;
    if (count++ == kOrderedRanksMax) break;
    MSITD_ASSIGN_OR_RETURN(const TensorGroup group, matcher.Load(key, [this] {
      return observer_.Check();
    }));
    if (!order.Add(group)) break;
  }
  MSITD_RETURN_IF_ERROR(
      findings_.SetOrder(order, [this] { return observer_.Check(); }));
  findings_.Show(observer_.header());
  return absl::OkStatus();
}

namespace {

void AccountLayoutHint(const v1::ComparisonRow& row,
                       v1::Comparison& comparison) {
  if (row.layout_hint().empty()) return;
  comparison.set_layout_hint_row_count(comparison.layout_hint_row_count() + 1);
  auto& hints = *comparison.mutable_layout_hints();
  if (hints.size() < kLayoutHintsMax &&
      std::find(hints.begin(), hints.end(), row.layout_hint()) == hints.end()) {
    *hints.Add() = row.layout_hint();
  }
}

void AccountVerdict(const v1::ComparisonRow& row, v1::Comparison& comparison) {
  switch (row.verdict()) {
    case v1::PASS:
      comparison.set_pass_count(comparison.pass_count() + 1);
      return;
    case v1::UNMATCHED:
      comparison.set_unmatched_count(comparison.unmatched_count() + 1);
      comparison.set_for_want_of_ranks_count(
          comparison.for_want_of_ranks_count() +
          (row.for_want_of_ranks() ? 1 : 0));
      return;
    case v1::SKIPPED:
      comparison.set_skipped_count(comparison.skipped_count() + 1);
      comparison.set_not_compared_count(comparison.not_compared_count() +
                                        (row.not_compared() ? 1 : 0));
      comparison.set_allowed_unmatched_count(
          comparison.allowed_unmatched_count() +
          (IsAllowedUnmatched(row) ? 1 : 0));
      return;
    default:
      comparison.set_fail_count(comparison.fail_count() + 1);
  }
}

}  // namespace

void AccountRow(const v1::ComparisonRow& row, v1::Comparison& comparison) {
  AccountVerdict(row, comparison);
  AccountLayoutHint(row, comparison);
  if (row.watches_size() > 0) {
    comparison.set_watched_count(comparison.watched_count() + 1);
  }
  if (row.sampled()) {
    comparison.set_sampled_count(comparison.sampled_count() + 1);
  }
  if (row.flipped_element_count() > 0) {
    comparison.set_flipped_count(comparison.flipped_count() + 1);
  }
  if (row.explained()) {
    comparison.set_explained_count(comparison.explained_count() + 1);
  }
  if (row.unread()) comparison.set_unread_count(comparison.unread_count() + 1);
  if (IsOfStatistics(row) &&
      (row.verdict() == v1::PASS || row.verdict() == v1::FAIL)) {
    comparison.set_statistics_count(comparison.statistics_count() + 1);
    comparison.set_statistics_in_part_count(
        comparison.statistics_in_part_count() +
        (row.statistics_in_part() ? 1 : 0));
  }
  if (IsNonFiniteOnBothSides(row)) {
    comparison.set_both_non_finite_count(comparison.both_non_finite_count() +
                                         1);
  }
}

bool ComparisonEngine::LeaveOutUndecidable(const TensorGroup& group,
                                           const PairPlan& plan) {
  // Rules of a user and stated tolerances apply as written.
  if (row_.verdict() != v1::FAIL || plan.verification.rule != -1 ||
      plan.stated != nullptr) {
    return false;
  }
  if (!undecidable_.has_value()) undecidable_.emplace(group.pairs);
  std::string reason = undecidable_->ReasonOf(row_numbers_.size());
  if (reason.empty()) return false;
  row_.set_verdict(v1::SKIPPED);
  row_.set_reason(std::move(reason));
  return true;
}

void ComparisonEngine::JudgeOrigin(const TensorGroup& group,
                                   const PairPlan& plan,
                                   const Judgment& judgment) {
  if (LeaveOutUndecidable(group, plan)) {
    conditioning_.Add(std::nullopt, std::nullopt, /*fails=*/false,
                      DType::kUnspecified);
    origins_.PassOver();
    return;
  }
  AddToConditioning(group.pairs[row_numbers_.size()], plan.basis,
                    judgment.metrics);
  if (group.window == 0) {
    origins_.Judge(judgment.judged(), plan.basis.basis.computed_in, row_);
    return;
  }
  // The tensors of earlier windows are no longer in memory.
  origins_.PassOver();
  if (row_.verdict() == v1::FAIL) row_.set_origin(v1::UNKNOWN_INPUTS);
}

}  // namespace msitd::compare
