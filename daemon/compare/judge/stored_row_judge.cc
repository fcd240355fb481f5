// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/stored_row_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "daemon/compare/judge/closing_value.h"
#include "daemon/compare/judge/judge_basis.h"
#include "daemon/compare/judge/pair_plan.h"
#include "daemon/compare/judge/row_builder.h"
#include "daemon/compare/judge/stored_tolerance.h"
#include "daemon/compare/judge/summary_bounds.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

RecordKind KindOf(const v1::ComparedTensor& side) {
  return static_cast<RecordKind>(side.kind());
}

// Returns whether no policy has another verdict for the row.
bool IsDecided(const v1::ComparisonRow& row) {
  if (!row.has_golden() || !row.has_target() ||
      row.judge_basis().has_inconsistent_shards()) {
    return true;
  }
  const RecordKind golden = KindOf(row.golden());
  const RecordKind target = KindOf(row.target());
  const auto is_compared = [](RecordKind kind) {
    return kind == RecordKind::kTensor || kind == RecordKind::kStatistics;
  };
  // Texts and numbers, also beside a tensor.
  return !is_compared(golden) || !is_compared(target);
}

bool HasElements(const v1::ComparisonRow& row) {
  return ElementCount(row.golden().shape()) != 0 ||
         ElementCount(row.target().shape()) != 0;
}

// Returns whether a side looks like scores to which a mask was added.
bool MayHaveMask(const v1::ComparedTensor& side) {
  if (static_cast<DType>(side.dtype()) == DType::kBool) return true;
  return side.infinity_count() > 0 ||
         (side.has_min() &&
          (IsClosing(side.min()) || IsClosing(side.min() / 2)));
}

// Sets the verdict, and clears everything that belonged to the earlier one.
void DecideAgain(v1::Verdict verdict, std::string reason,
                 v1::ComparisonRow& row) {
  if (verdict != v1::FAIL) {
    row.clear_origin();
    row.clear_amplification();
    row.clear_roundings();
    row.clear_unread();
  }
  row.clear_explained();
  row.set_lacks_metrics(verdict == v1::SKIPPED);
  row.set_not_compared(verdict == v1::SKIPPED);
  row.set_verdict(verdict);
  row.set_reason(std::move(reason));
}

std::vector<int64_t> ShapeOf(const v1::ComparedTensor& side) {
  return {side.shape().begin(), side.shape().end()};
}

bool ShapesAgree(const v1::ComparisonRow& row, ShapeRule rule) {
  // Fast path, because most shapes are equal.
  if (std::ranges::equal(row.target().shape(), row.golden().shape())) {
    return true;
  }
  return ShapesAgree(ShapeOf(row.target()), ShapeOf(row.golden()), rule);
}

// Returns the summary of a side, as far as its row has it: bounds from it hold
// for the tensor. Nullopt if the row has none.
std::optional<Summary> SummaryOf(const v1::ComparedTensor& side) {
  if (!side.has_nan_count() || !side.has_infinity_count()) return std::nullopt;
  const auto dtype = static_cast<DType>(side.dtype());
  Summary out;
  out.count = ElementCount(side.shape()) * (IsComplex(dtype) ? 2 : 1);
  out.nan_count = static_cast<uint64_t>(side.nan_count());
  // The row has the sum of both signs. A difference of the sums is a difference
  // of at least one of the signs.
  out.positive_infinity_count = static_cast<uint64_t>(side.infinity_count());
  if (out.nan_count + out.positive_infinity_count > out.count) {
    return std::nullopt;
  }
  if (side.has_min()) out.min = side.min();
  if (side.has_max()) out.max = side.max();
  out.sum_squares = side.l2_norm() * side.l2_norm();
  const bool is_known = (side.has_min() && side.has_max()) || out.count == 0;
  return is_known && std::isfinite(out.sum_squares) ? std::optional(out)
                                                    : std::nullopt;
}

// Returns bounds of the metrics if the summaries of both sides prove that the
// pair fails.
std::optional<RowMetrics> ProveFailure(const Verification& verification,
                                       const v1::ComparisonRow& row) {
  const std::optional<Summary> golden = SummaryOf(row.golden());
  const std::optional<Summary> target = SummaryOf(row.target());
  if (!golden.has_value() || !target.has_value()) return std::nullopt;
  RowMetrics least = LeastMetrics(*target, *golden, verification.request);
  // An infinity of one sign can be compensated by one of the other.
  least[static_cast<size_t>(compute::Metric::kInfMismatchCount)].reset();
  return verification.predicate->CannotHold(least) ? std::optional(least)
                                                   : std::nullopt;
}

// Returns whether the rule of a verification names ops.
bool IsByName(const Policy& policy, const Verification& verification) {
  return verification.rule >= 0 &&
         !policy.RuleText(static_cast<size_t>(verification.rule))
              .starts_with("*: ");
}

// Returns the metrics of the predicate that the row lacks because they were not
// computed: those of sets that are not in `computed`.
std::vector<int> NotComputed(const predicate::Predicate& predicate,
                             const RowMetrics& metrics, uint32_t computed) {
  std::vector<int> out;
  for (const int name : predicate.Names()) {
    const uint32_t set = SetOf(name);
    if (!metrics[static_cast<size_t>(name)].has_value() && set != 0 &&
        (set & computed) == 0) {
      out.push_back(name);
    }
  }
  return out;
}

std::string LacksText(const std::vector<int>& names) {
  std::vector<std::string_view> texts;
  for (const int name : names) {
    texts.push_back(MetricNames()[static_cast<size_t>(name)]);
  }
  return texts.size() == 1
             ? fmt::format("metric {} was not computed", texts.front())
             : fmt::format("metrics {} were not computed",
                           fmt::join(texts, ", "));
}

}  // namespace

StoredRowJudge::Outcome StoredRowJudge::Judge(StoredRow& stored) const {
  v1::ComparisonRow& row = stored.row();
  Outcome out;
  if (IsDecided(row)) return out;
  const bool is_judged = row.verdict() == v1::PASS ||
                         row.verdict() == v1::FAIL || row.lacks_metrics();
  if (!is_judged) {
    if (!is_same_) KeepSkipped(row, out);
    return out;
  }
  const bool were_compared = ShapesAgree(row, earlier_.shape_rule());
  const bool are_compared = ShapesAgree(row, policy_.shape_rule());
  const bool has_verdict = row.bitwise_equal() || !HasElements(row);
  if (!are_compared ||
      (!were_compared && !has_verdict && !stored.has_metrics())) {
    JudgeShapes(stored, out);
    return out;
  }
  if (has_verdict && were_compared && !row.lacks_metrics()) return out;
  // The earlier verdict is for the shapes only.
  if (!were_compared) row.set_lacks_metrics(true);
  if (has_verdict || (IsOfStatistics(row) && !(is_same_ && were_compared))) {
    Lack("only its bytes, statistics or shapes were compared", row, out);
  } else if (!IsOfStatistics(row)) {
    const Verification last = VerificationOf(earlier_, row);
    out.verification = VerificationOf(policy_, row);
    JudgeOfTensors(last, stored, out);
  }
  return out;
}

void StoredRowJudge::KeepSkipped(v1::ComparisonRow& row, Outcome& out) {
  constexpr std::string_view kEarlier = "skipped under the earlier policy: ";
  out.is_kept = false;
  std::string reason = row.reason();
  if (!reason.starts_with(kEarlier)) reason = std::string(kEarlier) + reason;
  row.set_reason(std::move(reason));
  row.set_not_compared(true);
}

void StoredRowJudge::Lack(std::string reason, v1::ComparisonRow& row,
                          Outcome& out) {
  out.is_kept = false;
  row.clear_predicate();
  row.clear_rtol();
  row.clear_atol();
  DecideAgain(v1::SKIPPED, std::move(reason), row);
}

void StoredRowJudge::JudgeShapes(StoredRow& stored, Outcome& out) const {
  v1::ComparisonRow& row = stored.row();
  const bool were_compared = ShapesAgree(row, earlier_.shape_rule()) &&
                             !(row.lacks_metrics() && !stored.has_metrics());
  const bool are_compared = ShapesAgree(row, policy_.shape_rule());
  if (!were_compared && !are_compared && !row.lacks_metrics()) return;
  out.is_kept = false;
  row.clear_predicate();
  if (are_compared) {
    DecideAgain(v1::SKIPPED,
                "no metric was computed, because the shapes differ", row);
    return;
  }
  const std::vector<int64_t> target = ShapeOf(row.target());
  const std::vector<int64_t> golden = ShapeOf(row.golden());
  DecideAgain(v1::FAIL,
              fmt::format("shape: target {}, golden {}", ShapeText(target),
                          ShapeText(golden)),
              row);
}

bool StoredRowJudge::IsSame(const Verification& last, const Verification& next,
                            const v1::ComparisonRow& row) const {
  const compute::ElementRequest& a = last.request;
  const compute::ElementRequest& b = next.request;
  if (row.lacks_metrics() || last.is_default != next.is_default ||
      last.hash_decides != next.hash_decides || a.rtol != b.rtol ||
      a.atol != b.atol || a.either != b.either ||
      last.predicate->text() != next.predicate->text()) {
    return false;
  }
  return !row.judge_basis().is_model_input() ||
         IsByName(earlier_, last) == IsByName(policy_, next);
}

std::string StoredRowJudge::WhyMetricsDoNotCount(
    const Verification& last, const Verification& verification,
    const v1::ComparisonRow& row) const {
  if (row.judge_basis().is_in_any_order()) {
    return "the tolerance of the earlier policy determined which rows of both "
           "tensors were compared";
  }
  if (row.judge_basis().leaves_out_closed()) {
    return "the metrics leave out elements that a mask closes in both runs";
  }
  if (context_.has_stated_tolerances() && verification.is_default) {
    return "the golden run may state a tolerance of this tensor, which is not "
           "in the row";
  }
  if (verification.is_default && !last.is_default &&
      MayHaveMask(row.golden()) && MayHaveMask(row.target())) {
    return "a mask may close elements in both runs, which the default policy "
           "leaves out";
  }
  return "";
}

void StoredRowJudge::JudgeOfTensors(const Verification& last, StoredRow& stored,
                                    Outcome& out) const {
  v1::ComparisonRow& row = stored.row();
  const Verification& next = out.verification;
  if (IsSame(last, next, row)) {
    out.is_stated = context_.has_stated_tolerances() && next.is_default;
    if (row.predicate() != next.predicate->text()) return;
    out.has_bounds = stored.has_metrics();
    if (out.has_bounds) out.metrics = stored.metrics();
    return;
  }
  out.is_kept = false;
  row.set_predicate(next.predicate->text());
  std::string obstacle = WhyMetricsDoNotCount(last, next, row);
  if (!obstacle.empty()) {
    row.clear_predicate();
    DecideAgain(v1::SKIPPED, std::move(obstacle), row);
    return;
  }
  if (stored.has_metrics()) {
    JudgeByMetrics(last, stored, out);
    return;
  }
  out.are_bounds_known = false;
  if (next.hash_decides && HasOtherHash(row)) {
    row.clear_predicate();
    DecideAgain(v1::FAIL, "the hashes differ", row);
  } else if (const auto least = ProveFailure(next, row)) {
    DecideAgain(v1::FAIL, next.predicate->FirstFailure(*least) + kBySummaries,
                row);
  } else {
    row.clear_predicate();
    DecideAgain(v1::SKIPPED, "no metric of this pair was computed", row);
  }
}

void StoredRowJudge::JudgeByMetrics(const Verification& last, StoredRow& stored,
                                    Outcome& out) const {
  v1::ComparisonRow& row = stored.row();
  const Verification& next = out.verification;
  const predicate::Predicate& predicate = *next.predicate;
  out.metrics = stored.metrics();
  uint32_t computed = context_.is_judged() ? 0 : last.request.sets;
  const StoredTolerance tolerance =
      JudgeTolerance(row, next.request, out.metrics);
  computed &= ~compute::kToleranceSet;
  if (tolerance == StoredTolerance::kSame) {
    computed |= compute::kToleranceSet;
  } else {
    // They are those of the earlier policy.
    row.clear_rtol();
    row.clear_atol();
    stored.SetMetrics(out.metrics);
  }
  const std::vector<int> missing =
      NotComputed(predicate, out.metrics, computed);
  RowMetrics values = out.metrics;
  // Unlike an absent value, NaN is also undefined under `if present`.
  for (const int name : missing) {
    values[static_cast<size_t>(name)] =
        std::numeric_limits<double>::quiet_NaN();
  }
  const std::optional<bool> holds = predicate.Evaluate(values);
  RowMetrics least;
  least[kOutlierCount] = 1;
  if (holds != true && tolerance == StoredTolerance::kExceeded &&
      predicate.CannotHold(least)) {
    out.are_bounds_known = false;
    DecideAgain(v1::FAIL,
                fmt::format("elements exceed rtol {:g}, atol {:g}",
                            next.request.rtol, next.request.atol),
                row);
    return;
  }
  if (!holds.has_value() && !missing.empty()) {
    if (const auto proven = ProveFailure(next, row)) {
      out.are_bounds_known = false;
      DecideAgain(v1::FAIL, predicate.FirstFailure(*proven) + kBySummaries,
                  row);
      return;
    }
    row.clear_predicate();
    DecideAgain(v1::SKIPPED, LacksText(missing), row);
    return;
  }
  out.has_bounds = true;
  if (holds != true) {
    const bool is_eased = next.is_default && !last.is_default;
    DecideAgain(
        v1::FAIL,
        predicate.FirstFailure(values) +
            (is_eased ? "; exceptions of the default policy, which need the "
                        "tensors, were not examined"
                      : ""),
        row);
    return;
  }
  const auto proven = row.sampled() ? ProveFailure(next, row) : std::nullopt;
  if (proven.has_value()) {
    DecideAgain(v1::FAIL, predicate.FirstFailure(*proven) + kBySummaries, row);
  } else if (row.judge_basis().is_model_input() && !IsByName(policy_, next)) {
    DecideAgain(v1::FAIL, "integers that the model is given count exactly",
                row);
  } else {
    DecideAgain(v1::PASS, "", row);
  }
}

}  // namespace msitd::compare
