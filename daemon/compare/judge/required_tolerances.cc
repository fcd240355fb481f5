// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/required_tolerances.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "daemon/compute/metric_table.h"

namespace msitd::compare {
namespace {

constexpr int kMaxAbs = static_cast<int>(compute::Metric::kMaxAbs);
constexpr int kAtolNeeded = IndexOf(compute::ElementMetric::kAtolNeeded);
constexpr int kRtolNeeded = IndexOf(compute::ElementMetric::kRtolNeeded);

bool HasElementTolerance(const Verification& verification) {
  return (verification.request.sets & compute::kToleranceSet) != 0;
}

// Returns whether some bounds of the rule would let the row pass.
bool CanPass(const Verification& verification, const RowMetrics& metrics) {
  if (!HasElementTolerance(verification)) {
    return verification.predicate->CanHold(metrics);
  }
  const auto is_finite = [&metrics](int metric) {
    return metrics[metric].has_value() && std::isfinite(*metrics[metric]);
  };
  RowMetrics at_best = metrics;
  // With a large enough rtol or atol, no element is an outlier.
  if (is_finite(kAtolNeeded) || is_finite(kRtolNeeded)) {
    at_best[kOutlierCount] = 0;
  }
  return verification.predicate->CanHold(at_best);
}

}  // namespace

std::vector<RequiredTolerances::Entry> RequiredTolerances::EntriesOf(
    const Verification& verification) {
  std::vector<Entry> out;
  for (const predicate::Predicate::Bound& bound :
       verification.predicate->Bounds()) {
    out.push_back({bound});
  }
  if (HasElementTolerance(verification)) {
    const auto add = [&out](int metric, double number) {
      predicate::Predicate::Bound bound;
      bound.name = metric;
      bound.number = number;
      out.push_back({bound, /*is_element_tolerance=*/true});
    };
    add(kAtolNeeded, verification.request.atol);
    add(kRtolNeeded, verification.request.rtol);
  }
  out.resize(std::min(out.size(), kRequiredTolerancesMax - count_));
  count_ += out.size();
  return out;
}

bool RequiredTolerances::TakesMaxAbs(const RowMetrics& metrics, int64_t row,
                                     Entry& entry) {
  const std::optional<double> value = metrics[entry.bound.name];
  const std::optional<double> max_abs = metrics[kMaxAbs];
  const bool is_worst = value.has_value() && std::isinf(*value) &&
                        std::signbit(*value) == entry.bound.at_least;
  if (!is_worst || entry.is_element_tolerance || !max_abs.has_value() ||
      !std::isfinite(*max_abs)) {
    return false;
  }
  if (entry.max_abs_row < 0 || *max_abs > entry.max_abs) {
    entry.max_abs = *max_abs;
    entry.max_abs_row = row;
  }
  return true;
}

void RequiredTolerances::Add(const Verification& verification,
                             const RowMetrics& metrics, int64_t row) {
  AddBounds(verification, metrics, row);
  AddVerdict(verification, metrics, row);
}

void RequiredTolerances::AddStatistics(const Verification& verification,
                                       const RowMetrics& metrics, int64_t row) {
  AddBounds(verification, metrics, row);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto table = compute::MetricTable();
  RowMetrics at_best = metrics;
  for (size_t i = 0; i < at_best.size(); ++i) {
    if (!table[i].is_of_many_elements || at_best[i].has_value()) continue;
    at_best[i] = table[i].higher_is_better ? kInfinity : -kInfinity;
  }
  AddVerdict(verification, at_best, row);
}

void RequiredTolerances::AddBounds(const Verification& verification,
                                   const RowMetrics& metrics, int64_t row) {
  const auto [found, is_new] =
      entries_.try_emplace({verification.rule, verification.predicate});
  if (is_new) found->second = EntriesOf(verification);
  for (Entry& entry : found->second) {
    const std::optional<double> value = metrics[entry.bound.name];
    if (!value.has_value() || !entry.bound.CanTake(*value)) continue;
    changed_ = true;
    ++entry.row_count;
    if (TakesMaxAbs(metrics, row, entry)) continue;
    const double tightest = entry.bound.Tightest(*value);
    const bool asks_more = entry.bound.at_least ? tightest < entry.required
                                                : tightest > entry.required;
    if (entry.row >= 0 && !asks_more) continue;
    entry.required = tightest;
    entry.row = row;
  }
}

void RequiredTolerances::AddVerdict(const Verification& verification,
                                    const RowMetrics& metrics, int64_t row) {
  const bool fails = !verification.predicate->Holds(metrics);
  if (fails && CanPass(verification, metrics)) curable_row_ = row;
}

void RequiredTolerances::AddFailure(int64_t row) {
  if (row == curable_row_) return;
  changed_ = true;
  if (hopeless_count_++ == 0) first_hopeless_row_ = row;
}

void RequiredTolerances::Show(v1::Comparison& comparison) const {
  changed_ = false;
  comparison.set_hopeless_count(hopeless_count_);
  comparison.set_first_hopeless_row(first_hopeless_row_);
  comparison.clear_required_tolerances();
  for (const auto& [key, entries] : entries_) {
    for (const Entry& entry : entries) {
      if (entry.row < 0 && entry.max_abs_row < 0) continue;
      v1::RequiredTolerance& out = *comparison.add_required_tolerances();
      out.set_rule(key.first);
      out.set_predicate(key.second->text());
      out.set_metric(std::string(MetricNames()[entry.bound.name]));
      out.set_at_least(entry.bound.at_least);
      out.set_strict(entry.bound.is_strict);
      out.set_negated(entry.bound.is_negated);
      out.set_element_tolerance(entry.is_element_tolerance);
      out.set_bound(entry.bound.number);
      // If all rows have an infinite metric, no other bound is required.
      out.set_required(entry.row < 0 ? entry.bound.number : entry.required);
      out.set_row(entry.row < 0 ? entry.max_abs_row : entry.row);
      out.set_row_count(entry.row_count);
      if (entry.max_abs_row < 0) continue;
      v1::RequiredTolerance& instead = *comparison.add_required_tolerances();
      instead.set_rule(key.first);
      instead.set_predicate(key.second->text());
      instead.set_metric(std::string(MetricNames()[kMaxAbs]));
      instead.set_bound(std::numeric_limits<double>::quiet_NaN());
      instead.set_required(entry.max_abs);
      instead.set_row(entry.max_abs_row);
    }
  }
}

}  // namespace msitd::compare
