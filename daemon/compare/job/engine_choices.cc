// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/selection_reader.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Excludes masks and quantized numbers, which are never choices.
bool MayBeChoice(const LogicalTensor& tensor) {
  return !IsFloatingPoint(tensor.dtype) && !IsComplex(tensor.dtype) &&
         ElementBytes(tensor.dtype) > 1 && tensor.has_bytes &&
         (tensor.key.io == Io::kOutput || tensor.key.io == Io::kInput);
}

// True if the tensor is combined from several ranks. Scores never explain such
// tensors.
bool IsOfSeveralRanks(const LogicalTensor& tensor) {
  return tensor.assembly != nullptr && (!tensor.assembly->difference.empty() ||
                                        RanksOf(*tensor.assembly).size() > 1);
}

// Returns the number of a part such as `experts.7`, which is that of its
// scores; nullopt if the last part of the name is not a number.
std::optional<uint64_t> PartNumberOf(std::string_view op) {
  const std::string_view part = op.substr(op.rfind('.') + 1);
  uint64_t number = 0;
  const char* const end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, number);
  return error == std::errc() && stop == end && !part.empty()
             ? std::optional(number)
             : std::nullopt;
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
  // The scores of a choice are those at its recorded position.
  if (plan.any_order.has_value()) return absl::OkStatus();
  if (MayBeSelection(group, number, plan, row)) {
    return JudgeSelection(group, number, row);
  }
  if (row.verdict() != v1::FAIL || plan.way != PairPlan::Way::kBytes ||
      group.window > 0 || pair.golden->dtype != pair.target->dtype ||
      pair.golden->shape != pair.target->shape || !MayBeChoice(*pair.golden) ||
      !MayBeChoice(*pair.target) || IsOfSeveralRanks(*pair.golden) ||
      IsOfSeveralRanks(*pair.target)) {
    return absl::OkStatus();
  }
  if (const std::optional<size_t> flip = origins_.FlipOfNext()) {
    origins_.SetFollowsFromFlip();
    const double count =
        metrics[static_cast<size_t>(compute::Metric::kMismatchCount)].value_or(
            0);
    PassAsFlip(number, plan,
               fmt::format("follows from choices that differ as their scores "
                           "do: {}",
                           NameOf(group.pairs[*flip])),
               static_cast<int64_t>(count), row);
    return absl::OkStatus();
  }
  if (choice_budget_.pairs == 0) return absl::OkStatus();
  --choice_budget_.pairs;
  for (const size_t scores : origins_.ScoresOfNext()) {
    const absl::StatusOr<ChoiceOutcome> outcome =
        ReadChoices(pair, group.pairs[scores], {*golden_, *target_},
                    choice_budget_, observer_);
    if (absl::IsCancelled(outcome.status())) return outcome.status();
    if (!outcome.ok() || outcome->is_of_other_scores) continue;
    const std::string name = NameOf(group.pairs[scores]);
    // Golden chose by these scores, so no other scores are tried.
    if (outcome->unexplained_count > 0 || outcome->flipped_count == 0) {
      origins_.SetChoice(OriginFinder::Choice::kUnexplained, scores);
      row.set_reason(
          row.reason() +
          fmt::format("; its scores, {}, do not explain that", name));
      return absl::OkStatus();
    }
    origins_.SetChoice(OriginFinder::Choice::kExplained, scores);
    if (!origins_.HasPassed(scores)) return absl::OkStatus();
    PassAsFlip(number, plan,
               fmt::format("{} of {} choices differ as their scores do, {}: "
                           "each run chose by its own",
                           outcome->flipped_count,
                           ElementCount(pair.golden->shape), name),
               static_cast<int64_t>(outcome->flipped_count), row);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

void ComparisonEngine::PassAsFlip(size_t number, const PairPlan& plan,
                                  std::string reason, int64_t count,
                                  v1::ComparisonRow& row) {
  row.set_flipped_element_count(count);
  row.set_reason(std::move(reason));
  if (plan.verification.is_default) row.set_verdict(v1::PASS);
  reasons_[number] = row.reason();
}

bool ComparisonEngine::IsByDefault(const TensorPair& pair,
                                   const PairPlan& plan) const {
  // Pairs with different shapes have no verification of their own.
  return plan.way == PairPlan::Way::kShapes
             ? plan_.policy
                   .VerificationFor(pair.golden->key, pair.target->dtype,
                                    pair.golden->dtype, plan.basis.basis)
                   .is_default
             : plan.verification.is_default;
}

bool ComparisonEngine::JudgeFlipped(const TensorPair& pair,
                                    const PairPlan& plan) {
  if (origins_.IsProvenFault()) return false;
  std::optional<std::string> flip;
  if (row_.verdict() == v1::UNMATCHED && !row_.for_want_of_ranks()) {
    flip = origins_.FlipOfLone();
  } else if (row_.verdict() == v1::FAIL && row_.origin() == v1::FLIPPED &&
             IsByDefault(pair, plan)) {
    flip = origins_.FlipOfLast();
  }
  if (!flip.has_value()) return false;
  row_.set_verdict(v1::SKIPPED);
  row_.set_origin(v1::FLIPPED);
  row_.clear_amplification();
  row_.clear_roundings();
  row_.set_reason(
      fmt::format("not decided, because it follows from choices that differ as "
                  "their scores do, {}: {}",
                  *flip, row_.reason()));
  return true;
}

bool ComparisonEngine::MayBeSelection(const TensorGroup& group, size_t number,
                                      const PairPlan& plan,
                                      const v1::ComparisonRow& row) {
  const TensorPair& pair = group.pairs[number];
  if (group.window > 0 || pair.golden == nullptr ||
      pair.golden->key.io != Io::kInput) {
    return false;
  }
  const bool is_alone =
      plan.way == PairPlan::Way::kAlone && row.verdict() == v1::UNMATCHED;
  const bool is_of_bytes =
      row.verdict() == v1::FAIL &&
      (plan.way == PairPlan::Way::kBytes || plan.way == PairPlan::Way::kShapes);
  const auto is_readable = [](const LogicalTensor* tensor) {
    return tensor == nullptr ||
           (IsFloatingPoint(tensor->dtype) && tensor->has_bytes &&
            !IsOfSeveralRanks(*tensor));
  };
  return (is_alone || is_of_bytes) && is_readable(pair.golden) &&
         is_readable(pair.target);
}

absl::Status ComparisonEngine::JudgeSelection(const TensorGroup& group,
                                              size_t number,
                                              v1::ComparisonRow& row) {
  for (const auto& [from, scores] : origins_.SelectionsOfNext()) {
    if (choice_budget_.pairs == 0) break;
    --choice_budget_.pairs;
    const std::optional<uint64_t> column =
        PartNumberOf(group.pairs[number].golden->key.op);
    const absl::StatusOr<SelectionOutcome> outcome = ReadSelection(
        group.pairs[number], group.pairs[from], group.pairs[scores], column,
        {*golden_, *target_}, observer_);
    if (absl::IsCancelled(outcome.status())) return outcome.status();
    if (!outcome.ok() || !outcome->is_selection) return absl::OkStatus();
    const bool has_others = outcome->other_count > 0;
    const uint64_t count =
        has_others ? outcome->other_count : outcome->moved_count;
    if (outcome->unexplained_count > 0 || count == 0) continue;
    if (!origins_.HasPassed(scores)) return absl::OkStatus();
    origins_.SetChoice(OriginFinder::Choice::kSelection, scores,
                       /*is_flip=*/column.has_value());
    row.set_reason(fmt::format(
        "{}; {} row{} of {} {}, where the scores, {}, are nearly equal",
        row.reason(), count, count == 1 ? "" : "s", NameOf(group.pairs[from]),
        has_others ? "selected in one run only" : "selected in another order",
        NameOf(group.pairs[scores])));
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace msitd::compare
