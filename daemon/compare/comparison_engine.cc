// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/comparison_engine.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/compare/row_builder.h"
#include "daemon/compare/row_metrics.h"
#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// How many tensors are counted between two looks at the observer.
constexpr uint64_t kCountedBetweenChecks = 4096;

void Decide(v1::Verdict verdict, std::string reason, v1::ComparisonRow& row) {
  row.set_verdict(verdict);
  row.set_reason(std::move(reason));
}

bool SelectsAll(const storage::TensorSelector& selector) {
  return selector.ranks.empty() && selector.devices.empty() &&
         selector.tokens.empty() && selector.op_patterns.empty() &&
         selector.ios.empty();
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

bool ShapesAgree(std::vector<int64_t> a, std::vector<int64_t> b,
                 ShapeRule rule) {
  if (rule == ShapeRule::kCount) {
    const auto count = [](const std::vector<int64_t>& shape) {
      return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                             std::multiplies<>());
    };
    return count(a) == count(b);
  }
  if (rule == ShapeRule::kSqueeze) {
    std::erase(a, 1);
    std::erase(b, 1);
  }
  return a == b;
}

std::string_view SideWithoutBytes(const TensorPair& pair) {
  if (pair.golden->has_bytes) return "target";
  return pair.target->has_bytes ? "golden" : "golden and target";
}

}  // namespace

absl::Status ComparisonEngine::Run() {
  MSITD_ASSIGN_OR_RETURN(const uint64_t total, CountGolden());
  observer_.OnTotal(total);
  MSITD_ASSIGN_OR_RETURN(
      const ExactMatcher matcher,
      ExactMatcher::Create(store_, plan_.golden_run, plan_.target_run,
                           plan_.selector));
  for (size_t i = 0; i < matcher.group_count(); ++i) {
    if (observer_.IsCancelled()) return absl::CancelledError("cancelled");
    MSITD_ASSIGN_OR_RETURN(const TensorGroup group, matcher.Load(i));
    MSITD_RETURN_IF_ERROR(CompareGroup(group));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ComparisonEngine::CountGolden() {
  if (SelectsAll(plan_.selector)) {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run,
                           store_.GetRun(plan_.golden_run));
    return run.counters.tensor_count;
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         store_.Scan(plan_.golden_run, plan_.selector, ""));
  storage::TensorInfo tensor;
  for (uint64_t count = 0;; ++count) {
    if (count % kCountedBetweenChecks == 0 && observer_.IsCancelled()) {
      return absl::CancelledError("cancelled");
    }
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(tensor));
    if (!more) return count;
  }
}

absl::Status ComparisonEngine::CompareGroup(const TensorGroup& group) {
  if (!group.too_large_run.empty()) {
    v1::ComparisonRow row;
    row.set_token(group.token);
    row.set_rank(group.rank);
    Decide(v1::SKIPPED,
           fmt::format("run {} has more than {} tensors at this rank and "
                       "token; narrow the filter by op",
                       group.too_large_run, kGroupTensorsMax),
           row);
    return EmitRow(std::move(row));
  }
  for (const TensorPair& pair : group.pairs) {
    if (observer_.IsCancelled()) return absl::CancelledError("cancelled");
    v1::ComparisonRow row =
        DescribePair(pair, plan_.golden_run, plan_.target_run);
    MSITD_RETURN_IF_ERROR(Judge(pair, row));
    MSITD_RETURN_IF_ERROR(EmitRow(std::move(row)));
  }
  if (required_tolerances_.changed()) {
    observer_.OnRequiredTolerances(required_tolerances_);
  }
  return absl::OkStatus();
}

absl::Status ComparisonEngine::Judge(const TensorPair& pair,
                                     v1::ComparisonRow& row) {
  if (pair.golden == nullptr || pair.target == nullptr) {
    Decide(v1::UNMATCHED,
           fmt::format("only in run {}", pair.golden != nullptr
                                             ? plan_.golden_run
                                             : plan_.target_run),
           row);
    return absl::OkStatus();
  }
  const storage::TensorInfo& golden = *pair.golden;
  const storage::TensorInfo& target = *pair.target;
  if (!ShapesAgree(target.shape, golden.shape, plan_.policy.shape_rule())) {
    Decide(v1::FAIL,
           fmt::format("shape {} against {}", ShapeText(target.shape),
                       ShapeText(golden.shape)),
           row);
  } else if (IsComplex(target.dtype) != IsComplex(golden.dtype)) {
    Decide(v1::SKIPPED,
           fmt::format("{} against {}: complex against real is not compared",
                       DTypeName(target.dtype), DTypeName(golden.dtype)),
           row);
  } else if (target.dtype == golden.dtype && target.hash == golden.hash) {
    PassEqual(pair, row);
  } else if (golden.tensor_bytes == 0 && target.tensor_bytes == 0) {
    Decide(v1::PASS, "no elements", row);
  } else if (!golden.has_bytes || !target.has_bytes) {
    if (VerificationOf(pair).hash_decides) {
      Decide(v1::FAIL, "the hashes differ; the bytes are no longer kept", row);
      return absl::OkStatus();
    }
    Decide(v1::SKIPPED,
           fmt::format("the bytes of the {} tensor are no longer kept, and "
                       "the hashes do not decide",
                       SideWithoutBytes(pair)),
           row);
  } else {
    return Measure(pair, row);
  }
  return absl::OkStatus();
}

Verification ComparisonEngine::VerificationOf(const TensorPair& pair) const {
  Verification out = plan_.policy.VerificationFor(
      pair.golden->key.op, pair.target->dtype, pair.golden->dtype);
  const std::vector<int64_t>& shape = pair.golden->shape;
  out.request.row_elements = shape.empty() ? 1 : shape.back();
  return out;
}

void ComparisonEngine::PassEqual(const TensorPair& pair,
                                 v1::ComparisonRow& row) const {
  // Equal bytes pass whatever the predicate asks: it may name a metric that
  // such a pair does not have, as the cosine of zeros.
  row.set_bitwise_equal(true);
  const Summary& summary = pair.golden->summary;
  RowMetrics metrics = ToRowMetrics(
      compute::MetricsOfEqual(summary.count, summary.finite_count()), summary);
  AddElementMetrics(
      compute::ElementMetricsOfEqual(pair.golden->dtype, summary,
                                     VerificationOf(pair).request),
      metrics);
  AddMetrics(metrics, row);
  Decide(v1::PASS, "", row);
}

absl::Status ComparisonEngine::Measure(const TensorPair& pair,
                                       v1::ComparisonRow& row) {
  const Verification verification = VerificationOf(pair);
  const absl::StatusOr<PairMeasurement> measurement =
      ReadMetrics(pair, verification.request);
  if (absl::IsCancelled(measurement.status())) return measurement.status();
  if (!measurement.ok()) {
    Decide(v1::SKIPPED, std::string(Message(measurement.status())), row);
    return absl::OkStatus();
  }
  RowMetrics metrics = ToRowMetrics(measurement->metrics, pair.golden->summary);
  AddElementMetrics(measurement->elements, metrics);
  AddMetrics(metrics, row);
  required_tolerances_.Add(verification, metrics, row_count_);
  const Predicate& predicate = *verification.predicate;
  row.set_predicate(predicate.text());
  const bool has_tolerance =
      (verification.request.sets & compute::kToleranceSet) != 0;
  if (has_tolerance) {
    row.set_rtol(verification.request.rtol);
    row.set_atol(verification.request.atol);
  }
  if (predicate.Holds(metrics)) {
    Decide(v1::PASS, "", row);
    return absl::OkStatus();
  }
  std::string reason = predicate.FirstFailure(metrics);
  if (has_tolerance) {
    reason += ToleranceNeeded(verification.request, measurement->elements);
  }
  const std::string where =
      LargestDifference(measurement->metrics, *pair.golden);
  if (!where.empty()) reason += "; " + where;
  Decide(v1::FAIL, std::move(reason), row);
  return absl::OkStatus();
}

absl::StatusOr<PairMeasurement> ComparisonEngine::ReadMetrics(
    const TensorPair& pair, const compute::ElementRequest& request) {
  // The matcher left the parts out.
  const auto with_parts =
      [this](const storage::TensorInfo& tensor, const std::string& run,
             std::string_view side) -> absl::StatusOr<storage::TensorInfo> {
    TensorKey key = tensor.key;
    key.run = run;
    auto out = store_.GetTensor(key);
    if (!out.ok()) {
      return Annotate(out.status(), fmt::format("{} tensor", side));
    }
    return out;
  };
  MSITD_ASSIGN_OR_RETURN(const storage::TensorInfo target,
                         with_parts(*pair.target, plan_.target_run, "target"));
  MSITD_ASSIGN_OR_RETURN(const storage::TensorInfo golden,
                         with_parts(*pair.golden, plan_.golden_run, "golden"));
  return reader_.Measure(target, golden, request, observer_);
}

absl::Status ComparisonEngine::EmitRow(v1::ComparisonRow row) {
  row.set_row(row_count_++);
  return observer_.OnRow(std::move(row));
}

void AccountRow(const v1::ComparisonRow& row, v1::Comparison& comparison) {
  switch (row.verdict()) {
    case v1::PASS:
      comparison.set_pass_count(comparison.pass_count() + 1);
      return;
    case v1::UNMATCHED:
      comparison.set_unmatched_count(comparison.unmatched_count() + 1);
      return;
    case v1::SKIPPED:
      comparison.set_skipped_count(comparison.skipped_count() + 1);
      return;
    default:
      break;
  }
  comparison.set_fail_count(comparison.fail_count() + 1);
  const auto order = [](const v1::ComparisonRow& of) {
    return std::tuple(of.token(), of.sequence(), of.rank(), of.row());
  };
  if (!comparison.has_first_divergence() ||
      order(row) < order(comparison.first_divergence())) {
    *comparison.mutable_first_divergence() = row;
  }
}

}  // namespace msitd::compare
