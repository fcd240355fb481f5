// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>
#include <string>

#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/selection_reader.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

bool IsExact(const LogicalTensor& tensor) {
  return !IsFloatingPoint(tensor.dtype) && !IsComplex(tensor.dtype) &&
         tensor.has_bytes &&
         (tensor.key.io == Io::kOutput || tensor.key.io == Io::kInput);
}

bool MayBeChoice(const LogicalTensor& tensor) {
  return tensor.dtype != DType::kBool && ElementBytes(tensor.dtype) > 1;
}

std::string NameOf(const TensorPair& pair) {
  const TensorKey& key = pair.golden->key;
  return fmt::format("{} {}/{}", key.op, IoName(key.io), key.index);
}

}  // namespace

absl::Status ComparisonEngine::JudgeChoice(const TensorGroup& group,
                                           size_t number, const PairPlan& plan,
                                           const RowMetrics& metrics,
                                           v1::ComparisonRow& row) {
  const TensorPair& pair = group.pairs[number];
  if (MayBeSelection(group, number, plan, row)) {
    return JudgeSelection(group, number, row);
  }
  if (row.verdict() != v1::FAIL || plan.way != PairPlan::Way::kBytes ||
      group.window > 0 || !IsExact(*pair.golden) || !IsExact(*pair.target) ||
      pair.golden->shape != pair.target->shape) {
    return absl::OkStatus();
  }
  if (const std::optional<size_t> flip = origins_.FlipOfNext()) {
    origins_.SetFollowsFromFlip();
    row.set_flipped_element_count(static_cast<int64_t>(
        metrics[static_cast<size_t>(compute::Metric::kMismatchCount)].value_or(
            0)));
    row.set_reason(fmt::format(
        "follows from choices that differ within the noise of their scores: {}",
        NameOf(group.pairs[*flip])));
    if (plan.verification.is_default) row.set_verdict(v1::PASS);
    reasons_[number] = row.reason();
    return absl::OkStatus();
  }
  if (!MayBeChoice(*pair.golden) || !MayBeChoice(*pair.target)) {
    return absl::OkStatus();
  }
  std::optional<size_t> unexplained;
  for (const size_t scores : origins_.ScoresOfNext()) {
    const absl::StatusOr<ChoiceOutcome> outcome =
        ReadChoices(pair, group.pairs[scores], {*golden_, *target_}, observer_);
    if (absl::IsCancelled(outcome.status())) return outcome.status();
    if (!outcome.ok() || outcome->is_of_other_scores) continue;
    if (outcome->unexplained_count > 0) {
      if (!unexplained.has_value()) unexplained = scores;
      continue;
    }
    origins_.SetChoice(OriginFinder::Choice::kExplained, scores);
    if (!origins_.HasPassed(scores)) return absl::OkStatus();
    row.set_flipped_element_count(static_cast<int64_t>(outcome->flipped_count));
    row.set_reason(fmt::format(
        "{} of {} choices differ within the noise of their scores, {}: these "
        "are {:.3g} apart at most, and differ by up to {:.3g}",
        outcome->flipped_count, ElementCount(pair.golden->shape),
        NameOf(group.pairs[scores]), outcome->gap, outcome->difference));
    if (plan.verification.is_default) row.set_verdict(v1::PASS);
    reasons_[number] = row.reason();
    return absl::OkStatus();
  }
  if (unexplained.has_value()) {
    origins_.SetChoice(OriginFinder::Choice::kUnexplained, *unexplained);
    row.set_reason(row.reason() +
                   fmt::format("; its scores, {}, do not explain that",
                               NameOf(group.pairs[*unexplained])));
  }
  return absl::OkStatus();
}

bool ComparisonEngine::MayBeSelection(const TensorGroup& group, size_t number,
                                      const PairPlan& plan,
                                      const v1::ComparisonRow& row) {
  const TensorPair& pair = group.pairs[number];
  const bool is_of_bytes =
      plan.way == PairPlan::Way::kBytes || plan.way == PairPlan::Way::kShapes;
  return row.verdict() == v1::FAIL && is_of_bytes && group.window == 0 &&
         IsFloatingPoint(pair.golden->dtype) && pair.golden->has_bytes &&
         pair.target->has_bytes && pair.golden->key.io == Io::kInput;
}

absl::Status ComparisonEngine::JudgeSelection(const TensorGroup& group,
                                              size_t number,
                                              v1::ComparisonRow& row) {
  for (const auto& [from, scores] : origins_.SelectionsOfNext()) {
    const absl::StatusOr<SelectionOutcome> outcome =
        ReadSelection(group.pairs[number], group.pairs[from],
                      group.pairs[scores], {*golden_, *target_}, observer_);
    if (absl::IsCancelled(outcome.status())) return outcome.status();
    if (!outcome.ok() || !outcome->is_selection) return absl::OkStatus();
    if (outcome->unexplained_count > 0 || outcome->other_count == 0) continue;
    origins_.SetChoice(OriginFinder::Choice::kExplained, scores);
    if (!origins_.HasPassed(scores)) return absl::OkStatus();
    row.set_flipped_element_count(static_cast<int64_t>(outcome->other_count));
    row.set_reason(fmt::format(
        "{}; {} row{} of {} selected in one run only, within the noise of the "
        "scores, {}",
        row.reason(), outcome->other_count,
        outcome->other_count == 1 ? "" : "s", NameOf(group.pairs[from]),
        NameOf(group.pairs[scores])));
    reasons_[number] = row.reason();
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace msitd::compare
