// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/judge/judge_basis.h"
#include "daemon/compare/judge/pair_judge.h"
#include "daemon/compare/origin/bases.h"
#include "daemon/compare/origin/row_error.h"
#include "protos/status/status.h"

// Connects the judge of single pairs with the state of the comparison.
namespace msitd::compare {

absl::StatusOr<Judgment> ComparisonEngine::Judge(const TensorGroup& group,
                                                 const PairPlan& plan,
                                                 v1::ComparisonRow& row) {
  const TensorPair& pair = group.pairs[row_numbers_.size()];
  if (!plan.is_measured()) {
    const JudgeContext context = {plan_.policy, plan_.matching,
                                  plan_.golden_run, plan_.target_run, ranks_};
    return JudgeUnmeasured(pair, plan, context, row);
  }
  const absl::StatusOr<PairMeasurement> measurement = measurer_->Next();
  if (absl::IsCancelled(measurement.status()) ||
      HasReason(measurement.status(), ErrorReason::kSourceFailed)) {
    return measurement.status();
  }
  if (!measurement.ok()) {
    row.set_verdict(v1::SKIPPED);
    row.set_reason(std::string(Message(measurement.status())));
    return Judgment();
  }
  absl::Status status;
  const auto excuse =
      [&](const RowMetrics& metrics) -> std::optional<std::string> {
    absl::StatusOr<std::optional<std::string>> reason =
        Excuse(group, plan, metrics);
    if (reason.ok()) return *std::move(reason);
    status = reason.status();
    return std::nullopt;
  };
  Judgment judgment = JudgeMeasured(pair, plan, *measurement, excuse, row);
  MSITD_RETURN_IF_ERROR(status);
  return judgment;
}

StatedTolerances ComparisonEngine::StatedTolerancesOf(
    const TensorGroup& group) {
  if (!states_tolerances_) return StatedTolerances();
  absl::StatusOr<StatedTolerances> read = StatedTolerances::Read(
      *golden_, group, [this] { return CheckFromAnyThread(); });
  // Without the statements, the default policy would pass more than they do.
  return read.ok() ? *std::move(read)
                   : StatedTolerances::Unreadable(read.status());
}

void ComparisonEngine::AddBounds(const PairPlan& plan,
                                 const Judgment& judgment) {
  // Statements have a bound for each tensor, which no flag replaces.
  if (judgment.has_bounds && plan.stated == nullptr) {
    required_tolerances_.Add(plan.verification, judgment.judged(), row_count_);
  }
  for (const StatisticsOutcome::JudgedPart& part : judgment.parts) {
    required_tolerances_.AddStatistics(part.verification, part.metrics,
                                       row_count_);
  }
}

void ComparisonEngine::AddFailure(const PairPlan& plan) {
  if (row_.verdict() == v1::FAIL && plan.stated == nullptr) {
    required_tolerances_.AddFailure(row_count_);
  }
}

absl::StatusOr<std::optional<std::string>> ComparisonEngine::Excuse(
    const TensorGroup& group, const PairPlan& plan, const RowMetrics& metrics) {
  if (!has_order_) return std::nullopt;
  std::optional<std::string> reason = conditioning_.Explain(
      metrics, *plan.verification.predicate, plan.basis.basis.computed_in);
  MSITD_ASSIGN_OR_RETURN(std::optional<std::string> by_sums,
                         ExplainByRowSums(group, plan, metrics));
  if (by_sums.has_value()) reason = std::move(by_sums);
  if (!reason.has_value()) reason = ExplainAsZero(group, plan, metrics);
  if (reason.has_value()) return reason;
  return ExplainByKink(group, metrics);
}

void ComparisonEngine::AddToConditioning(const TensorPair& pair,
                                         const PairBasis& basis,
                                         const RowMetrics& metrics) {
  std::optional<double> error;
  std::optional<double> revealed;
  if (row_.verdict() == v1::PASS) {
    const bool is_equal =
        row_.bitwise_equal() || HashesAgree(*pair.golden, *pair.target);
    error = is_equal ? 0 : metrics[static_cast<size_t>(compute::Metric::kNl2)];
    revealed = is_equal ? 0 : MeasuredError(metrics);
  }
  conditioning_.Add(error, revealed, row_.verdict() == v1::FAIL,
                    basis.basis.computed_in);
}

void ComparisonEngine::DescribeBasis(const TensorGroup& group, size_t pair,
                                     const PairPlan& plan,
                                     const Judgment& judgment,
                                     bool has_equal_values) {
  const bool is_model_input = IsOtherModelInput(
      group, pair, judgment.difference, row_, has_equal_values);
  AddJudgeBasis(group.pairs[pair], plan, is_model_input, row_);
  if (judgment.is_by_basis) AddBasis(group, plan.basis, row_);
}

void ComparisonEngine::AddBasis(const TensorGroup& group,
                                const PairBasis& basis,
                                v1::ComparisonRow& row) {
  // The verdict does not depend on the basis, for example because the bytes are
  // equal.
  if (row.bitwise_equal() || row.predicate().empty()) return;
  std::string reason = row.reason();
  const auto add = [&reason](std::string_view text) {
    if (!reason.empty() && !text.empty()) reason += "; ";
    reason += text;
  };
  add(BasisText(group.pairs, basis));
  if (row.verdict() == v1::FAIL && basis.basis.has_equal_inputs) {
    add("its inputs are equal bit for bit");
  }
  row.set_reason(std::move(reason));
}

}  // namespace msitd::compare
