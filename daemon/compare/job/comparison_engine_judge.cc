// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/judge/summary_bounds.h"
#include "daemon/compare/measure/joined_sample.h"
#include "daemon/compare/measure/pair_source.h"
#include "protos/base/dtype.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

// What a pair is worth.
namespace msitd::compare {
namespace {

void Decide(v1::Verdict verdict, std::string reason, v1::ComparisonRow& row) {
  row.set_verdict(verdict);
  row.set_reason(std::move(reason));
}

// What would pass, for a reason.
std::string ToleranceNeeded(const compute::ElementRequest& request,
                            const compute::ElementMetrics& elements) {
  const double atol = elements[compute::ElementMetric::kAtolNeeded].value_or(0);
  const double rtol = elements[compute::ElementMetric::kRtolNeeded].value_or(0);
  return fmt::format(
      " (rtol {:g}, atol {:g}); passes with atol {:.6g} or rtol {:.6g}",
      request.rtol, request.atol, atol, rtol);
}

std::vector<int64_t> Squeezed(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

bool ShapesAgree(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                 ShapeRule rule) {
  if (a == b) return true;
  if (rule == ShapeRule::kCount) return ElementCount(a) == ElementCount(b);
  return rule == ShapeRule::kSqueeze && Squeezed(a) == Squeezed(b);
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

// Decides the row if the shards of a side cannot be put together.
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

// Of all shards, if it is made of some.
bool HasBytesOrSamples(const LogicalTensor& tensor) {
  if (tensor.has_bytes || tensor.assembly == nullptr) {
    return tensor.has_bytes || tensor.has_sample;
  }
  const std::vector<storage::TensorInfo>& shards = tensor.assembly->shards;
  return std::all_of(shards.begin(), shards.end(),
                     [](const storage::TensorInfo& shard) {
                       return shard.has_bytes || shard.has_sample;
                     });
}

// True if what is kept of a tensor that has all its shards has its sample.
bool HasSample(const LogicalTensor& tensor) {
  if (tensor.has_bytes || tensor.assembly == nullptr) {
    return tensor.has_bytes || tensor.has_sample;
  }
  return HasJoinedSample(tensor.assembly->grid, tensor.assembly->shards);
}

// Of a pair that is measured: there are samples only of a side.
bool IsSampled(const TensorPair& pair) {
  return !pair.golden->has_bytes || !pair.target->has_bytes;
}

// `sampled: 1000 of 65536 elements`.
std::string SampleText(const LogicalTensor& golden) {
  const uint64_t count = ElementCount(golden.shape);
  return fmt::format("sampled: {} of {} elements", SampleCount(count), count);
}

// Of sides that all have bytes or samples of what they are made of.
std::string WhySamplesDoNotDecide(const TensorPair& pair) {
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (HasSample(*tensor)) continue;
    return fmt::format(
        "; the samples of its shards do not have the sample of the {} tensor, "
        "every element of which has a number divisible by {}",
        tensor == pair.golden ? "golden" : "target",
        SampleStep(ElementCount(tensor->shape)));
  }
  return "; a sample does not prove that bytes are equal";
}

absl::StatusOr<PairMeasurement> MeasureAhead(
    const TensorPair& pair, storage::RunReader& target_run,
    storage::RunReader& golden_run, const PairAhead& ahead,
    const compute::ElementRequest& request, PairReader& reader,
    WorkObserver& reads) {
  if (pair.target->assembly == nullptr && pair.golden->assembly == nullptr) {
    return PairReader::MeasureAhead(*pair.target, *pair.golden, ahead, request,
                                    reads);
  }
  const TensorSource target =
      SourceAhead(*pair.target, "target", target_run, ahead.target);
  const TensorSource golden =
      SourceAhead(*pair.golden, "golden", golden_run, ahead.golden);
  return reader.Measure(target, golden, request, reads);
}

// Where both are known, the larger one.
RowMetrics Largest(const RowMetrics& a, const RowMetrics& b) {
  RowMetrics out = a;
  for (size_t i = 0; i < out.size(); ++i) {
    if (b[i].has_value()) out[i] = std::max(a[i].value_or(*b[i]), *b[i]);
  }
  return out;
}

constexpr char kBySummaries[] = "; so the summaries of the whole tensors say";

std::string_view SideWithoutBytes(const TensorPair& pair) {
  if (pair.golden->has_bytes) return "target";
  return pair.target->has_bytes ? "golden" : "golden and target";
}

}  // namespace

bool ComparisonEngine::MustMeasure(const TensorPair& pair) const {
  if (pair.golden == nullptr || pair.target == nullptr) return false;
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  const bool is_undecided =
      !HashesAgree(target, golden) && HasBytesOrSamples(golden) &&
      HasBytesOrSamples(target) &&
      (golden.tensor_bytes != 0 || target.tensor_bytes != 0) &&
      IsComplex(target.dtype) == IsComplex(golden.dtype) &&
      HasAllShards(target) && HasAllShards(golden) &&
      ShapesAgree(target.shape, golden.shape, plan_.policy.shape_rule());
  if (!is_undecided || !IsSampled(pair)) return is_undecided;
  return !VerificationOf(pair).hash_decides && HasSample(golden) &&
         HasSample(target);
}

void ComparisonEngine::Judge(const TensorPair& pair, v1::ComparisonRow& row,
                             RowMetrics& metrics) {
  if (pair.golden == nullptr || pair.target == nullptr) {
    const bool is_golden = pair.golden != nullptr;
    JudgeAlone(is_golden ? *pair.golden : *pair.target, is_golden, row);
    return;
  }
  const LogicalTensor& golden = *pair.golden;
  const LogicalTensor& target = *pair.target;
  if (!IsWhole(target, "target", row) || !IsWhole(golden, "golden", row)) {
    return;
  }
  if (!ShapesAgree(target.shape, golden.shape, plan_.policy.shape_rule())) {
    row.set_layout_hint(LayoutHint(golden, target, ranks_));
    Decide(v1::FAIL, ShapeDifference(target, golden, row.layout_hint()), row);
  } else if (IsComplex(target.dtype) != IsComplex(golden.dtype)) {
    Decide(v1::SKIPPED,
           fmt::format(
               "target {}, golden {}: complex against real is not compared",
               DTypeName(target.dtype), DTypeName(golden.dtype)),
           row);
  } else if (HashesAgree(target, golden)) {
    PassEqual(pair, row, metrics);
  } else if (golden.tensor_bytes == 0 && target.tensor_bytes == 0) {
    Decide(v1::PASS, "no elements", row);
  } else {
    if (HasHash(golden) && HasHash(target) &&
        VerificationOf(pair).hash_decides) {
      Decide(v1::FAIL, "the hashes differ; the bytes are not kept", row);
      return;
    }
    const Verification verification = VerificationOf(pair);
    ProveBySummaries(pair, verification, EqualMetrics(pair));
    if (proven_metrics_.has_value()) {
      const predicate::Predicate& predicate = *verification.predicate;
      required_tolerances_.Add(verification, *proven_metrics_, row_count_);
      row.set_predicate(predicate.text());
      Decide(v1::FAIL, predicate.FirstFailure(*proven_metrics_) + kBySummaries,
             row);
      return;
    }
    Decide(v1::SKIPPED,
           fmt::format("the bytes of the {} tensor are not kept, and "
                       "the hashes do not decide{}",
                       SideWithoutBytes(pair),
                       HasBytesOrSamples(golden) && HasBytesOrSamples(target)
                           ? WhySamplesDoNotDecide(pair)
                           : ""),
           row);
  }
}

void ComparisonEngine::JudgeAlone(const LogicalTensor& tensor, bool is_golden,
                                  v1::ComparisonRow& row) const {
  std::string reason = fmt::format(
      "only in run {}", is_golden ? plan_.golden_run : plan_.target_run);
  v1::ComparisonRow problem;
  if (!IsWhole(tensor, is_golden ? "golden" : "target", problem)) {
    Decide(v1::UNMATCHED, reason + "; " + problem.reason(), row);
    return;
  }
  const UnmatchedRules& rules = plan_.policy.unmatched_rules();
  const TensorKey& key = tensor.key;
  const std::string* rule = rules.Find(key.op, key.io, key.index);
  // An op of the target run goes by its golden name as well.
  if (rule == nullptr && !is_golden && plan_.matching.renames()) {
    rule = rules.Find(plan_.matching.GoldenOpOf(key.op), key.io, key.index);
  }
  if (rule != nullptr) reason += fmt::format("; allowed by \"{}\"", *rule);
  Decide(rule != nullptr ? v1::SKIPPED : v1::UNMATCHED, std::move(reason), row);
}

Verification ComparisonEngine::VerificationOf(const TensorPair& pair) const {
  Verification out = plan_.policy.VerificationFor(
      pair.golden->key.op, pair.target->dtype, pair.golden->dtype);
  const std::vector<int64_t>& shape = pair.golden->shape;
  out.request.row_elements = shape.empty() ? 1 : shape.back();
  return out;
}

Verification ComparisonEngine::MeasuredVerificationOf(
    const TensorPair& pair) const {
  Verification out = VerificationOf(pair);
  if (!IsSampled(pair)) return out;
  // Most rows of the tensor are not whole any more.
  const uint64_t count = ElementCount(pair.golden->shape);
  if (SampleStep(count) != 1) out.request.row_elements = SampleCount(count);
  return out;
}

void ComparisonEngine::ProveBySummaries(const TensorPair& pair,
                                        const Verification& verification,
                                        const RowMetrics& known) {
  if (!pair.golden->knows_summary || !pair.target->knows_summary) return;
  const RowMetrics least = LeastMetrics(
      pair.target->summary, pair.golden->summary, verification.request);
  if (!verification.predicate->CannotHold(least)) return;
  proven_metrics_ = Largest(known, least);
}

RowMetrics ComparisonEngine::EqualMetrics(const TensorPair& pair) const {
  const Summary& summary = pair.golden->summary;
  RowMetrics out = ToRowMetrics(
      compute::MetricsOfEqual(summary.count, summary.finite_count()), summary);
  AddElementMetrics(
      compute::ElementMetricsOfEqual(pair.golden->dtype, summary,
                                     VerificationOf(pair).request),
      out);
  return out;
}

void ComparisonEngine::PassEqual(const TensorPair& pair, v1::ComparisonRow& row,
                                 RowMetrics& metrics) const {
  // Equal bytes pass whatever the predicate asks: it may name a metric that
  // such a pair does not have, as the cosine of zeros.
  row.set_bitwise_equal(true);
  metrics = EqualMetrics(pair);
  Decide(v1::PASS, "", row);
}

absl::Status ComparisonEngine::Measure(const TensorPair& pair,
                                       v1::ComparisonRow& row,
                                       RowMetrics& metrics) {
  const bool is_sampled = IsSampled(pair);
  const Verification verification = MeasuredVerificationOf(pair);
  const absl::StatusOr<PairMeasurement> measurement = measurer_->Next();
  if (absl::IsCancelled(measurement.status())) return measurement.status();
  if (!measurement.ok()) {
    Decide(v1::SKIPPED, std::string(Message(measurement.status())), row);
    return absl::OkStatus();
  }
  row.set_sampled(is_sampled);
  // A row has the summary of the whole tensor, which the index knows.
  if (measurement->target_summary && !is_sampled) {
    AddSummary(*measurement->target_summary, *row.mutable_target());
  }
  if (measurement->golden_summary && !is_sampled) {
    AddSummary(*measurement->golden_summary, *row.mutable_golden());
  }
  metrics =
      ToRowMetrics(measurement->metrics,
                   measurement->golden_summary.value_or(pair.golden->summary));
  AddElementMetrics(measurement->elements, metrics);
  if (is_sampled) ProveBySummaries(pair, verification, metrics);
  const RowMetrics& judged = proven_metrics_ ? *proven_metrics_ : metrics;
  required_tolerances_.Add(verification, judged, row_count_);
  const predicate::Predicate& predicate = *verification.predicate;
  row.set_predicate(predicate.text());
  const bool has_tolerance =
      (verification.request.sets & compute::kToleranceSet) != 0;
  if (has_tolerance) {
    row.set_rtol(verification.request.rtol);
    row.set_atol(verification.request.atol);
  }
  if (predicate.Holds(judged)) {
    Decide(v1::PASS, is_sampled ? SampleText(*pair.golden) : "", row);
    return absl::OkStatus();
  }
  if (predicate.Holds(metrics)) {
    Decide(v1::FAIL,
           fmt::format("{}{}; {}", predicate.FirstFailure(judged), kBySummaries,
                       SampleText(*pair.golden)),
           row);
    return absl::OkStatus();
  }
  std::string reason = predicate.FirstFailure(metrics);
  if (has_tolerance) {
    reason += ToleranceNeeded(verification.request, measurement->elements);
  }
  const std::string where = LargestDifference(
      measurement->metrics, *pair.golden,
      is_sampled ? SampleStep(ElementCount(pair.golden->shape)) : 1);
  if (!where.empty()) reason += "; " + where;
  if (is_sampled) reason += "; " + SampleText(*pair.golden);
  difference_ = fmt::format("target {:.0f}, golden {:.0f}",
                            measurement->metrics.max_abs_target,
                            measurement->metrics.max_abs_golden);
  Decide(v1::FAIL, std::move(reason), row);
  return absl::OkStatus();
}

absl::StatusOr<PairMeasurement> ComparisonEngine::ReadMetrics(
    const TensorPair& pair, const PairAhead& ahead, PairReader& reader,
    WorkObserver& reads) const {
  const compute::ElementRequest request = MeasuredVerificationOf(pair).request;
  if (ahead.has_parts() && !IsSampled(pair)) {
    return MeasureAhead(pair, *target_, *golden_, ahead, request, reader,
                        reads);
  }
  MSITD_ASSIGN_OR_RETURN(TensorSource target,
                         StoredSource(*pair.target, "target", *target_));
  MSITD_ASSIGN_OR_RETURN(TensorSource golden,
                         StoredSource(*pair.golden, "golden", *golden_));
  target.is_sampled = golden.is_sampled = IsSampled(pair);
  return reader.Measure(target, golden, request, reads);
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
        reason += "; they add up to the other side: if they are terms, " + hint;
        row.set_layout_hint(hint);
      }
    }
    row.set_bitwise_equal(false);
    Decide(v1::FAIL, std::move(reason), row);
  }
}

}  // namespace msitd::compare
