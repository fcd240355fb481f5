// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/judge/equal_masks.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/judge/statistics_judge.h"
#include "daemon/compare/judge/summary_bounds.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

// Decides the verdict of each pair.
namespace msitd::compare {
namespace {

void Decide(v1::Verdict verdict, std::string reason, v1::ComparisonRow& row) {
  row.set_verdict(verdict);
  row.set_reason(std::move(reason));
}

// Returns the tolerances with which the row would pass, for its reason.
std::string ToleranceNeeded(const compute::ElementRequest& request,
                            const compute::ElementMetrics& elements) {
  const double atol = elements[compute::ElementMetric::kAtolNeeded].value_or(0);
  const double rtol = elements[compute::ElementMetric::kRtolNeeded].value_or(0);
  return fmt::format(
      " (rtol {:g}, atol {:g}); passes with atol {:.6g} or rtol {:.6g}",
      request.rtol, request.atol, atol, rtol);
}

v1::Verdict VerdictOf(Assembly::Problem problem) {
  switch (problem) {
    case Assembly::Problem::kShardsAmiss:
      return v1::UNMATCHED;
    case Assembly::Problem::kUnsupported:
      return v1::SKIPPED;
    default:
      return v1::FAIL;
  }
}

// Returns true if the shards of a side form one tensor. Otherwise decides the
// row.
bool IsWhole(const LogicalTensor& tensor, std::string_view side,
             v1::ComparisonRow& row) {
  if (HasAllShards(tensor)) return true;
  const Assembly& assembly = *tensor.assembly;
  Decide(VerdictOf(assembly.problem),
         fmt::format("{} {}: {}", side, AssemblyText(assembly),
                     assembly.problem_text),
         row);
  return false;
}

// Returns how a reason shows a record: a text in quotes, any other value as it
// is, and tensors and statistics by their kind.
std::string ValueText(const LogicalTensor& tensor) {
  if (tensor.kind == RecordKind::kTensor) return "a tensor";
  if (tensor.kind == RecordKind::kStatistics) return "statistics";
  if (tensor.kind == RecordKind::kText) {
    return fmt::format("\"{}\"", tensor.value);
  }
  return tensor.value;
}

// Returns a text such as `sampled: 1000 of 65536 elements`.
std::string SampleText(const LogicalTensor& golden) {
  const uint64_t count = ElementCount(golden.shape);
  return fmt::format("sampled: {} of {} elements", SampleCount(count), count);
}

// Returns the larger value of each metric. A metric that only one argument has
// keeps its value.
RowMetrics Largest(const RowMetrics& a, const RowMetrics& b) {
  RowMetrics out = a;
  for (size_t i = 0; i < out.size(); ++i) {
    if (b[i].has_value()) out[i] = std::max(a[i].value_or(*b[i]), *b[i]);
  }
  return out;
}

// Passes a pair of equal masks. Tensors that are computed from them do not
// differ, so the row has no metrics.
void DecideMask(const TensorPair& pair, v1::ComparisonRow& row,
                RowMetrics& metrics) {
  metrics = RowMetrics();
  const auto text = [](const LogicalTensor& tensor) {
    return tensor.dtype == DType::kBool
               ? std::string("bool")
               : fmt::format("0 and {:g}", tensor.summary.min);
  };
  Decide(v1::PASS,
         fmt::format("equal as masks: target {}, golden {}", text(*pair.target),
                     text(*pair.golden)),
         row);
}

// Returns a text such as `target 403, golden 186; 3 of 8 differ`. Empty if no
// element differs, or if a side is not of integers.
std::string IntegerDifference(const TensorPair& pair,
                              const compute::PairMetrics& metrics) {
  const auto is_integer = [](DType type) {
    return !IsFloatingPoint(type) && !IsComplex(type);
  };
  const double differing = metrics[compute::Metric::kMismatchCount].value_or(0);
  if (differing == 0 || !is_integer(pair.golden->dtype) ||
      !is_integer(pair.target->dtype)) {
    return "";
  }
  const uint64_t count = ElementCount(pair.golden->shape);
  std::string out = IntegersOf(metrics);
  if (count > 1) out += fmt::format("; {:.0f} of {} differ", differing, count);
  return out;
}

// Returns a text such as `28 of 64 places are closed in both runs, target down
// to -65504, golden down to -inf, and left out`.
std::string ClosedText(const TensorPair& pair, uint64_t closed_count) {
  return fmt::format(
      "{} of {} places are closed in both runs, target down to {:g}, golden "
      "down to {:g}, and left out",
      closed_count, pair.golden->summary.count, pair.target->summary.min,
      pair.golden->summary.min);
}

constexpr char kBySummaries[] = "; so the summaries of the whole tensors say";

bool HasTolerance(const Verification& verification) {
  return (verification.request.sets & compute::kToleranceSet) != 0;
}

// Returns the metric that fails the predicate of the pair, with the positions
// of the largest differences.
std::string FailureText(const TensorPair& pair, const PairPlan& plan,
                        const RowMetrics& metrics,
                        const compute::PairMetrics& pair_metrics,
                        const compute::ElementMetrics& elements) {
  const predicate::Predicate& predicate = *plan.verification.predicate;
  std::string text = predicate.FirstFailure(metrics);
  if (HasTolerance(plan.verification)) {
    text += ToleranceNeeded(plan.verification.request, elements);
  }
  const uint64_t step =
      plan.is_sampled() ? SampleStep(ElementCount(pair.golden->shape)) : 1;
  const std::string where =
      LargestDifference(pair_metrics, *pair.target, *pair.golden, step);
  if (!where.empty()) text += "; " + where;
  text += WorstPlaces(predicate, metrics, pair_metrics, elements,
                      pair.golden->shape);
  return text;
}

// Returns the metrics of a pair with equal bytes.
RowMetrics EqualMetrics(const TensorPair& pair,
                        const compute::ElementRequest& request) {
  const Summary& summary = pair.golden->summary;
  RowMetrics out = ToRowMetrics(
      compute::MetricsOfEqual(summary.count, summary.finite_count(),
                              request.row_shape()),
      summary);
  AddElementMetrics(
      compute::ElementMetricsOfEqual(pair.golden->dtype, summary, request),
      out);
  return out;
}

}  // namespace

bool ComparisonEngine::IsEqualMask(const TensorPair& pair, const PairPlan& plan,
                                   const RowMetrics& metrics) {
  const std::optional<double> mismatches =
      metrics[static_cast<size_t>(compute::Metric::kMismatchCount)];
  return plan.verification.is_default && !plan.is_sampled() &&
         mismatches.has_value() &&
         AreEqualMasks(pair, static_cast<uint64_t>(*mismatches));
}

bool ComparisonEngine::IsExplained(const TensorGroup& group,
                                   const PairPlan& plan,
                                   const RowMetrics& metrics,
                                   v1::ComparisonRow& row) {
  const Verification& verification = plan.verification;
  if (!verification.is_default || plan.is_sampled() || !has_order_) {
    return false;
  }
  std::optional<std::string> reason = conditioning_.Explain(
      metrics, *verification.predicate, plan.basis.basis.computed_in);
  if (auto by_sums = ExplainByRowSums(group, plan, metrics)) {
    reason = std::move(by_sums);
  }
  if (!reason.has_value()) return false;
  row.set_predicate(verification.predicate->text());
  row.set_explained(true);
  Decide(v1::PASS, *std::move(reason), row);
  return true;
}

void ComparisonEngine::AddToConditioning(const TensorPair& pair,
                                         const PairBasis& basis,
                                         const RowMetrics& metrics) {
  std::optional<double> error;
  if (row_.verdict() == v1::PASS) {
    const bool is_equal = HashesAgree(*pair.golden, *pair.target);
    error = row_.bitwise_equal() || is_equal
                ? 0
                : metrics[static_cast<size_t>(compute::Metric::kNl2)];
  }
  conditioning_.Add(error, basis.basis.computed_in);
}

void ComparisonEngine::Judge(const TensorPair& pair, const PairPlan& plan,
                             v1::ComparisonRow& row, RowMetrics& metrics) {
  using Way = PairPlan::Way;
  if (plan.way == Way::kAlone) {
    JudgeAlone(pair, row);
    return;
  }
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  switch (plan.way) {
    case Way::kShardsAmiss:
      if (IsWhole(target, "target", row)) IsWhole(golden, "golden", row);
      break;
    case Way::kValues:
      if (golden.kind == target.kind && golden.hash == target.hash) {
        row.set_bitwise_equal(true);
        Decide(v1::PASS, "", row);
      } else {
        Decide(v1::FAIL,
               fmt::format("the values differ: target {}, golden {}",
                           ValueText(target), ValueText(golden)),
               row);
      }
      break;
    case Way::kStatistics:
      JudgeByStatistics(pair, plan, row, metrics);
      break;
    case Way::kShapes:
      row.set_layout_hint(LayoutHint(golden, target, ranks_));
      Decide(v1::FAIL, ShapeDifference(target, golden, row.layout_hint()), row);
      break;
    case Way::kKinds:
      Decide(v1::SKIPPED,
             fmt::format(
                 "target {}, golden {}: complex against real is not compared",
                 DTypeName(target.dtype), DTypeName(golden.dtype)),
             row);
      break;
    case Way::kContradiction:
      Decide(
          v1::SKIPPED,
          fmt::format("the hashes are equal, but the summaries are not: what "
                      "the rank of the {} tensor says of it is not true",
                      !golden.is_claimed   ? "target"
                      : !target.is_claimed ? "golden"
                                           : "golden or the target"),
          row);
      break;
    case Way::kEqualHashes:
      // Equal bytes pass any predicate. It may name a metric that is not
      // defined for such a pair, such as the cosine of zeros.
      row.set_bitwise_equal(true);
      metrics = EqualMetrics(pair, plan.verification.request);
      Decide(v1::PASS, "", row);
      break;
    case Way::kNoElements:
      Decide(v1::PASS, "no elements", row);
      break;
    case Way::kOtherHashes:
      Decide(v1::FAIL,
             fmt::format("the {} differ; the bytes {}",
                         golden.dtype == target.dtype ? "hashes" : "types",
                         plan.is_unread ? "were not read" : "are not kept"),
             row);
      break;
    default:
      MSITD_CHECK(plan.way == Way::kSummaries);
      JudgeBySummaries(pair, plan.verification, row);
  }
}

void ComparisonEngine::JudgeByStatistics(const TensorPair& pair,
                                         const PairPlan& plan,
                                         v1::ComparisonRow& row,
                                         RowMetrics& metrics) {
  for (const LogicalTensor* const tensor : {pair.target, pair.golden}) {
    if (tensor->kind == RecordKind::kTensor && !tensor->knows_summary) {
      Decide(
          v1::SKIPPED,
          fmt::format("the {} tensor has no summary to set beside statistics",
                      tensor == pair.target ? "target" : "golden"),
          row);
      return;
    }
    if (IsComplex(tensor->dtype)) {
      Decide(v1::SKIPPED, "statistics of complex tensors are not compared",
             row);
      return;
    }
  }
  StatisticsOutcome outcome = JudgeStatistics(
      *pair.target, *pair.golden, plan_.policy, {plan.basis.basis.computed_in});
  row.set_bitwise_equal(outcome.is_bitwise_equal);
  row.set_statistics_in_part(outcome.is_in_part);
  for (const StatisticsOutcome::JudgedPart& part : outcome.parts) {
    required_tolerances_.AddStatistics(part.verification, part.metrics,
                                       row_count_);
    metrics = Worst(metrics, part.metrics);
  }
  if (outcome.deciding_part >= 0) {
    const Verification& verification =
        outcome.parts[static_cast<size_t>(outcome.deciding_part)].verification;
    is_by_basis_ = verification.is_by_basis;
    row.set_predicate(verification.predicate->text());
    if ((verification.request.sets & compute::kToleranceSet) != 0) {
      row.set_rtol(verification.request.rtol);
      row.set_atol(verification.request.atol);
    }
  }
  Decide(outcome.verdict, std::move(outcome.reason), row);
}

void ComparisonEngine::JudgeBySummaries(const TensorPair& pair,
                                        const Verification& verification,
                                        v1::ComparisonRow& row) {
  ProveBySummaries(pair, verification,
                   EqualMetrics(pair, verification.request));
  if (!proven_metrics_.has_value()) {
    Decide(v1::SKIPPED, WhyUndecided(pair), row);
    return;
  }
  const predicate::Predicate& predicate = *verification.predicate;
  required_tolerances_.Add(verification, *proven_metrics_, row_count_);
  row.set_predicate(predicate.text());
  Decide(v1::FAIL, predicate.FirstFailure(*proven_metrics_) + kBySummaries,
         row);
}

void ComparisonEngine::JudgeAlone(const TensorPair& pair,
                                  v1::ComparisonRow& row) const {
  const bool is_golden = pair.golden != nullptr;
  const LogicalTensor& tensor = is_golden ? *pair.golden : *pair.target;
  std::string reason =
      pair.reason.empty()
          ? fmt::format("only in run {}",
                        is_golden ? plan_.golden_run : plan_.target_run)
          : fmt::format("in run {}: {}",
                        is_golden ? plan_.golden_run : plan_.target_run,
                        pair.reason);
  v1::ComparisonRow problem;
  if (!IsWhole(tensor, is_golden ? "golden" : "target", problem)) {
    Decide(v1::UNMATCHED, reason + "; " + problem.reason(), row);
    return;
  }
  if (pair.mapped_pair.has_value()) {
    Decide(v1::SKIPPED, std::move(reason), row);
    return;
  }
  const UnmatchedRules& rules = plan_.policy.unmatched_rules();
  const TensorKey& key = tensor.key;
  const std::string* rule = rules.Find(key.op, key.io, key.index);
  // Rules also apply to the golden name of an op of the target run.
  if (rule == nullptr && !is_golden && plan_.matching.renames()) {
    rule = rules.Find(plan_.matching.GoldenOpOf(key), key.io, key.index);
  }
  if (rule != nullptr) reason += fmt::format("; allowed by \"{}\"", *rule);
  Decide(rule != nullptr ? v1::SKIPPED : v1::UNMATCHED, std::move(reason), row);
}

void ComparisonEngine::ProveBySummaries(const TensorPair& pair,
                                        const Verification& verification,
                                        const RowMetrics& known) {
  const std::optional<RowMetrics> least = ProveFailure(pair, verification);
  if (least.has_value()) proven_metrics_ = Largest(known, *least);
}

absl::Status ComparisonEngine::Measure(const TensorGroup& group,
                                       const PairPlan& plan,
                                       v1::ComparisonRow& row,
                                       RowMetrics& metrics) {
  const TensorPair& pair = group.pairs[row_numbers_.size()];
  const bool is_sampled = plan.is_sampled();
  const Verification& verification = plan.verification;
  const absl::StatusOr<PairMeasurement> measurement = measurer_->Next();
  if (absl::IsCancelled(measurement.status()) ||
      HasReason(measurement.status(), ErrorReason::kSourceFailed)) {
    return measurement.status();
  }
  if (!measurement.ok()) {
    Decide(v1::SKIPPED, std::string(Message(measurement.status())), row);
    return absl::OkStatus();
  }
  row.set_sampled(is_sampled);
  // A sampled row keeps the summary of the whole tensor, which is in the index.
  if (measurement->target_summary && !is_sampled) {
    AddSummary(*measurement->target_summary, *row.mutable_target());
  }
  if (measurement->golden_summary && !is_sampled) {
    AddSummary(*measurement->golden_summary, *row.mutable_golden());
  }
  const compute::PairMetrics* pair_metrics = &measurement->metrics;
  const compute::ElementMetrics* elements = &measurement->elements;
  metrics =
      ToRowMetrics(*pair_metrics,
                   measurement->golden_summary.value_or(pair.golden->summary));
  AddElementMetrics(*elements, metrics);
  difference_ = IntegerDifference(pair, *pair_metrics);
  if (IsEqualMask(pair, plan, metrics)) {
    DecideMask(pair, row, metrics);
    return absl::OkStatus();
  }
  std::string remark = is_sampled ? SampleText(*pair.golden) : "";
  if (measurement->open.has_value()) {
    pair_metrics = &measurement->open->metrics;
    elements = &measurement->open->elements;
    metrics = ToRowMetrics(*pair_metrics, measurement->open->golden);
    AddElementMetrics(*elements, metrics);
    remark = ClosedText(pair, measurement->open->closed_count);
  }
  if (is_sampled) ProveBySummaries(pair, verification, metrics);
  const RowMetrics& judged = proven_metrics_ ? *proven_metrics_ : metrics;
  const predicate::Predicate& predicate = *verification.predicate;
  // Added even if the row is explained below: with an explicit tolerance, it
  // would not be explained.
  required_tolerances_.Add(verification, judged, row_count_);
  if (!predicate.Holds(judged) && IsExplained(group, plan, metrics, row)) {
    return absl::OkStatus();
  }
  row.set_predicate(predicate.text());
  if (HasTolerance(verification)) {
    row.set_rtol(verification.request.rtol);
    row.set_atol(verification.request.atol);
  }
  if (predicate.Holds(judged)) {
    Decide(v1::PASS, std::move(remark), row);
    return absl::OkStatus();
  }
  if (predicate.Holds(metrics)) {
    Decide(v1::FAIL,
           fmt::format("{}{}; {}", predicate.FirstFailure(judged), kBySummaries,
                       remark),
           row);
    return absl::OkStatus();
  }
  std::string reason =
      FailureText(pair, plan, metrics, *pair_metrics, *elements);
  if (!remark.empty()) reason += "; " + remark;
  Decide(v1::FAIL, std::move(reason), row);
  return absl::OkStatus();
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

void ComparisonEngine::AddRemarks(const TensorPair& pair,
                                  v1::ComparisonRow& row) {
  if (row.verdict() != v1::PASS) return;
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor->assembly == nullptr || tensor->assembly->remark.empty()) {
      continue;
    }
    std::string reason =
        fmt::format("{} {}", tensor == pair.golden ? "golden" : "target",
                    tensor->assembly->remark);
    if (!row.reason().empty()) reason += "; " + row.reason();
    row.set_reason(std::move(reason));
  }
}

void ComparisonEngine::JudgeCopies(const TensorPair& pair,
                                   v1::ComparisonRow& row) {
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor == nullptr || tensor->assembly == nullptr) continue;
    const Assembly& assembly = *tensor->assembly;
    if (assembly.difference.empty()) continue;
    std::string reason =
        fmt::format("{} {}: {}", tensor == pair.golden ? "golden" : "target",
                    AssemblyText(assembly), assembly.difference);
    if (!row.reason().empty()) reason += "; " + row.reason();
    if (pair.golden != nullptr && pair.target != nullptr) {
      const std::string hint = SumHint(*pair.golden, *pair.target);
      if (!hint.empty()) {
        reason += fmt::format(
            "; they add up to the other side: if they are terms, {} compares "
            "their sum and no longer checks that the ranks agree",
            hint);
        row.set_layout_hint(hint);
      }
    }
    row.set_bitwise_equal(false);
    row.set_explained(false);
    Decide(v1::FAIL, std::move(reason), row);
  }
}

}  // namespace msitd::compare
