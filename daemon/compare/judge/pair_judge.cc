// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/pair_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/judge/equal_masks.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/judge/stated_tolerance.h"
#include "daemon/compare/judge/summary_bounds.h"
#include "daemon/compare/view/any_order.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"

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

// True if the default policy treats both sides of a measured pair as equal
// masks.
bool IsEqualMask(const TensorPair& pair, const PairPlan& plan,
                 const RowMetrics& metrics) {
  const std::optional<double> mismatches =
      metrics[static_cast<size_t>(compute::Metric::kMismatchCount)];
  return plan.verification.is_default && !plan.is_sampled() &&
         mismatches.has_value() &&
         AreEqualMasks(pair, static_cast<uint64_t>(*mismatches));
}

// Returns the metrics that the summaries of the whole tensors prove, if these
// prove that the predicate does not hold. Used for pairs whose bytes are not
// all known. `known` has the metrics that are known without summaries.
std::optional<RowMetrics> ProvenMetrics(const TensorPair& pair,
                                        const Verification& verification,
                                        const RowMetrics& known) {
  const std::optional<RowMetrics> least = ProveFailure(pair, verification);
  return least.has_value() ? std::optional(Largest(known, *least))
                           : std::nullopt;
}

// Judges texts, or records of different kinds.
void JudgeValues(const LogicalTensor& target, const LogicalTensor& golden,
                 v1::ComparisonRow& row) {
  if (golden.kind == target.kind && golden.hash == target.hash) {
    row.set_bitwise_equal(true);
    Decide(v1::PASS, "", row);
    return;
  }
  Decide(v1::FAIL,
         fmt::format("the values differ: target {}, golden {}",
                     ValueText(target), ValueText(golden)),
         row);
}

// Skips a pair whose view of a side does not fit.
void SkipUnfit(const TensorPair& pair, v1::ComparisonRow& row) {
  const bool is_target = !ViewProblem(*pair.target).empty();
  const LogicalTensor& tensor = is_target ? *pair.target : *pair.golden;
  Decide(v1::SKIPPED,
         fmt::format("{} view {}: {}", is_target ? "target" : "golden",
                     tensor.view->text, ViewProblem(tensor)),
         row);
}

// Judges a tensor that exists in only one run.
void JudgeAlone(const TensorPair& pair, const JudgeContext& context,
                v1::ComparisonRow& row) {
  const bool is_golden = pair.golden != nullptr;
  const LogicalTensor& tensor = is_golden ? *pair.golden : *pair.target;
  const std::string_view run =
      is_golden ? context.golden_run : context.target_run;
  if (tensor.seen_in != nullptr && !tensor.is_seen_in_part) {
    Decide(v1::SKIPPED, fmt::format("in run {}: {}", run, *tensor.seen_in),
           row);
    return;
  }
  std::string reason = pair.reason.empty()
                           ? fmt::format("only in run {}", run)
                           : fmt::format("in run {}: {}", run, pair.reason);
  v1::ComparisonRow problem;
  if (!IsWhole(tensor, is_golden ? "golden" : "target", problem)) {
    Decide(v1::UNMATCHED, reason + "; " + problem.reason(), row);
    return;
  }
  if (pair.mapped_pair.has_value()) {
    Decide(v1::SKIPPED, std::move(reason), row);
    return;
  }
  const UnmatchedRules& rules = context.policy.unmatched_rules();
  const TensorKey& key = tensor.key;
  const std::string* rule = rules.Find(key.op, key.io, key.index);
  // Rules also apply to the golden name of an op of the target run.
  if (rule == nullptr && !is_golden && context.matching.renames()) {
    rule = rules.Find(context.matching.GoldenOpOf(key), key.io, key.index);
  }
  if (tensor.seen_in != nullptr) {
    reason =
        fmt::format("in run {}: not all of it is {}", run, *tensor.seen_in);
    row.set_not_compared(rule == nullptr);
  }
  if (rule != nullptr) reason += fmt::format("; allowed by \"{}\"", *rule);
  if (tensor.seen_in != nullptr) {
    Decide(v1::SKIPPED, std::move(reason), row);
    return;
  }
  Decide(rule != nullptr ? v1::SKIPPED : v1::UNMATCHED, std::move(reason), row);
}

// Skips a pair that is not judged according to the golden run. Otherwise
// returns false.
bool SkipStated(const PairPlan& plan, v1::ComparisonRow& row) {
  if (plan.way != PairPlan::Way::kStated) return false;
  row.set_not_compared(!plan.stated->is_covered);
  Decide(v1::SKIPPED, plan.stated->reason, row);
  return true;
}

// Judges a pair if at least one side is statistics.
void JudgeByStatistics(const TensorPair& pair, const PairPlan& plan,
                       const Policy& policy, v1::ComparisonRow& row,
                       Judgment& out) {
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
      *pair.target, *pair.golden, policy, {plan.basis.basis.computed_in});
  row.set_bitwise_equal(outcome.is_bitwise_equal);
  row.set_statistics_in_part(outcome.is_in_part);
  for (const StatisticsOutcome::JudgedPart& part : outcome.parts) {
    out.metrics = Worst(out.metrics, part.metrics);
  }
  if (outcome.deciding_part >= 0) {
    const Verification& verification =
        outcome.parts[static_cast<size_t>(outcome.deciding_part)].verification;
    out.is_by_basis = verification.is_by_basis;
    row.set_predicate(verification.predicate->text());
    if ((verification.request.sets & compute::kToleranceSet) != 0) {
      row.set_rtol(verification.request.rtol);
      row.set_atol(verification.request.atol);
    }
  }
  Decide(outcome.verdict, std::move(outcome.reason), row);
  out.parts = std::move(outcome.parts);
}

// Judges a pair by the summaries of both sides. The row is skipped if they do
// not prove a failure.
void JudgeBySummaries(const TensorPair& pair, const Verification& verification,
                      v1::ComparisonRow& row, Judgment& out) {
  out.proven_metrics = ProvenMetrics(pair, verification,
                                     EqualMetrics(pair, verification.request));
  if (!out.proven_metrics.has_value()) {
    Decide(v1::SKIPPED, WhyUndecided(pair), row);
    return;
  }
  const predicate::Predicate& predicate = *verification.predicate;
  out.has_bounds = true;
  row.set_predicate(predicate.text());
  Decide(v1::FAIL, predicate.FirstFailure(*out.proven_metrics) + kBySummaries,
         row);
}

// Sets the metrics of all positions and those that the verdict depends on, with
// a remark for the reason. Passes the row if the pair is a mask, and returns
// true.
bool TakeMeasurement(const TensorPair& pair, const PairPlan& plan,
                     const PairMeasurement& measurement, v1::ComparisonRow& row,
                     Judgment& out, std::string& remark) {
  out.metrics =
      ToRowMetrics(measurement.metrics,
                   measurement.golden_summary.value_or(pair.golden->summary));
  AddElementMetrics(measurement.elements, out.metrics);
  out.difference = IntegerDifference(pair, measurement.metrics);
  if (IsEqualMask(pair, plan, out.metrics)) {
    DecideMask(pair, row, out.metrics);
    return true;
  }
  remark = plan.is_sampled() ? SampleText(*pair.golden) : "";
  if (measurement.open.has_value()) {
    out.metrics =
        ToRowMetrics(measurement.open->metrics, measurement.open->golden);
    AddElementMetrics(measurement.open->elements, out.metrics);
    remark = ClosedText(pair, measurement.open->closed_count);
    row.mutable_judge_basis()->set_leaves_out_closed(true);
  }
  return false;
}

// Returns a text such as `38 of 40 rows are in another place`; empty if all
// rows are in the same place.
std::string MovedText(const RowMatch& rows, uint64_t row_count) {
  if (rows.moved_count == 0) return "";
  return fmt::format("{} of {} rows are in another place", rows.moved_count,
                     row_count);
}

// Returns a text such as `2 of 40 rows have no partner: golden 3,7, target
// 5,9`.
std::string AloneText(const RowMatch& rows, uint64_t row_count) {
  const char* const more = rows.alone_count > kAloneRowsMax ? ",..." : "";
  return fmt::format("{} of {} rows {} no partner: golden {}{}, target {}{}",
                     rows.alone_count, row_count,
                     rows.alone_count == 1 ? "has" : "have",
                     fmt::join(rows.alone_golden, ","), more,
                     fmt::join(rows.alone_target, ","), more);
}

}  // namespace

Judgment JudgeUnmeasured(const TensorPair& pair, const PairPlan& plan,
                         const JudgeContext& context, v1::ComparisonRow& row) {
  using Way = PairPlan::Way;
  Judgment out;
  out.is_by_basis = plan.verification.is_by_basis;
  if (SkipStated(plan, row)) return out;
  if (plan.way == Way::kAlone) {
    JudgeAlone(pair, context, row);
    return out;
  }
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  switch (plan.way) {
    case Way::kShardsAmiss:
      if (IsWhole(target, "target", row)) IsWhole(golden, "golden", row);
      break;
    case Way::kViewUnfit:
      SkipUnfit(pair, row);
      break;
    case Way::kValues:
      JudgeValues(target, golden, row);
      break;
    case Way::kStatistics:
      JudgeByStatistics(pair, plan, context.policy, row, out);
      break;
    case Way::kShapes:
      row.set_layout_hint(LayoutHint(golden, target, context.ranks));
      Decide(v1::FAIL, ShapeDifference(target, golden, row.layout_hint()), row);
      break;
    case Way::kKinds:
      Decide(v1::SKIPPED,
             fmt::format(
                 "target {}, golden {}: complex against real is not compared",
                 DTypeName(target.dtype), DTypeName(golden.dtype)),
             row);
      break;
    case Way::kOrderUnfit:
      Decide(v1::SKIPPED, AnyOrderProblem(golden, target), row);
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
      out.metrics = EqualMetrics(pair, plan.verification.request);
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
      JudgeBySummaries(pair, plan.verification, row, out);
  }
  return out;
}

RowMetrics DecisiveMetrics(const TensorPair& pair, const PairPlan& plan,
                           const PairMeasurement& measurement) {
  const RowMetrics metrics =
      ToRowMetrics(measurement.metrics,
                   measurement.golden_summary.value_or(pair.golden->summary));
  if (IsEqualMask(pair, plan, metrics)) return RowMetrics();
  return measurement.open.has_value()
             ? ToRowMetrics(measurement.open->metrics, measurement.open->golden)
             : metrics;
}

Judgment JudgeMeasured(const TensorPair& pair, const PairPlan& plan,
                       const PairMeasurement& measurement, Excuse excuse,
                       v1::ComparisonRow& row) {
  const Verification& verification = plan.verification;
  const predicate::Predicate& predicate = *verification.predicate;
  Judgment out;
  out.is_by_basis = verification.is_by_basis;
  row.set_sampled(plan.is_sampled());
  // A sampled row keeps the summary of the whole tensor, which is in the index.
  if (measurement.target_summary && !plan.is_sampled()) {
    AddSummary(*measurement.target_summary, *row.mutable_target());
  }
  if (measurement.golden_summary && !plan.is_sampled()) {
    AddSummary(*measurement.golden_summary, *row.mutable_golden());
  }
  std::string remark;
  if (TakeMeasurement(pair, plan, measurement, row, out, remark)) return out;
  if (plan.is_sampled()) {
    out.proven_metrics = ProvenMetrics(pair, verification, out.metrics);
  }
  const bool has_alone =
      measurement.rows.has_value() && measurement.rows->alone_count > 0;
  if (measurement.rows.has_value()) {
    const uint64_t count = plan.any_order->rows.count;
    const std::string text = has_alone ? AloneText(*measurement.rows, count)
                                       : MovedText(*measurement.rows, count);
    if (!text.empty() && !remark.empty()) remark += "; ";
    remark += text;
  }
  // Also if the row is excused below: with an explicit tolerance, it would not
  // be.
  out.has_bounds = true;
  const RowMetrics& judged = out.judged();
  const bool holds = predicate.Holds(judged);
  row.set_predicate(predicate.text());
  // The norm of a large tensor hides a single wrong row, but most rows differ
  // only if the tensor as a whole does.
  const bool has_wrong_rows =
      has_alone && verification.is_default &&
      2 * measurement.rows->alone_count <= plan.any_order->rows.count;
  if (!holds && !has_wrong_rows && verification.is_default &&
      !plan.is_sampled()) {
    if (std::optional<std::string> reason = excuse(out.metrics)) {
      row.set_explained(true);
      Decide(v1::PASS, *std::move(reason), row);
      return out;
    }
  }
  if (HasTolerance(verification)) {
    row.set_rtol(verification.request.rtol);
    row.set_atol(verification.request.atol);
  }
  if (holds && has_wrong_rows) {
    Decide(v1::FAIL, std::move(remark), row);
  } else if (holds) {
    Decide(v1::PASS, std::move(remark), row);
  } else if (predicate.Holds(out.metrics)) {
    Decide(v1::FAIL,
           fmt::format("{}{}; {}", predicate.FirstFailure(judged), kBySummaries,
                       remark),
           row);
  } else {
    const auto& open = measurement.open;
    std::string reason = FailureText(
        pair, plan, out.metrics, open ? open->metrics : measurement.metrics,
        open ? open->elements : measurement.elements);
    if (!remark.empty()) reason += "; " + remark;
    Decide(v1::FAIL, std::move(reason), row);
  }
  return out;
}

void AddRemarks(const TensorPair& pair, v1::ComparisonRow& row) {
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

void AddViews(const TensorPair& pair, v1::ComparisonRow& row) {
  const bool is_pair = pair.golden != nullptr && pair.target != nullptr;
  std::string reason = row.reason();
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor == nullptr || tensor->view == nullptr) continue;
    const std::string& problem = ViewProblem(*tensor);
    // Positions of a request are shown with its id.
    const std::string& text = tensor->view->is_of_request
                                  ? tensor->view->rows_of
                                  : tensor->view->text;
    // The reason of a pair whose view does not fit has its text.
    if ((is_pair && !problem.empty()) || text.empty()) continue;
    if (!reason.empty()) reason += "; ";
    reason += fmt::format("{} view {}",
                          tensor == pair.golden ? "golden" : "target", text);
    if (!problem.empty()) reason += ": " + problem;
  }
  row.set_reason(std::move(reason));
}

void JudgeCopies(const TensorPair& pair, v1::ComparisonRow& row) {
  const bool is_alone = pair.golden == nullptr || pair.target == nullptr;
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor == nullptr || DifferingCopies(*tensor) == nullptr) continue;
    const Assembly& assembly = *DifferingCopies(*tensor);
    std::string reason =
        fmt::format("{} {}: {}", tensor == pair.golden ? "golden" : "target",
                    AssemblyText(assembly), assembly.difference);
    const bool is_left_out = pair.mapped_pair.has_value() &&
                             assembly.shards.front().placement.empty();
    if (is_alone && (assembly.is_open_ended || is_left_out)) {
      row.set_reason(fmt::format("{}; {}", row.reason(), reason));
      // A layout states that the tensors are copies.
      if (!assembly.is_open_ended) row.set_not_compared(true);
      continue;
    }
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
