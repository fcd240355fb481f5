// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/required_tolerances.h"

#include <cmath>
#include <optional>
#include <string>

namespace msitd::compare {
namespace {

// The bounds of a predicate, and of the tolerance for elements, if any.
std::vector<Predicate::Bound> BoundsOf(const Verification& verification) {
  std::vector<Predicate::Bound> out = verification.predicate->Bounds();
  if ((verification.request.sets & compute::kToleranceSet) != 0) {
    constexpr int kAtol = static_cast<int>(compute::ElementMetric::kAtolNeeded);
    constexpr int kRtol = static_cast<int>(compute::ElementMetric::kRtolNeeded);
    out.push_back(
        {kFirstElementMetric + kAtol, false, verification.request.atol});
    out.push_back(
        {kFirstElementMetric + kRtol, false, verification.request.rtol});
  }
  return out;
}

}  // namespace

void RequiredTolerances::Add(const Verification& verification,
                             const RowMetrics& metrics, int64_t row) {
  const auto [found, is_new] =
      entries_.try_emplace({verification.rule, verification.predicate});
  std::vector<Entry>& entries = found->second;
  if (is_new) {
    for (const Predicate::Bound& bound : BoundsOf(verification)) {
      if (count_ == kRequiredTolerancesMax) break;
      entries.push_back({bound});
      ++count_;
    }
  }
  for (Entry& entry : entries) {
    const std::optional<double> value = metrics[entry.bound.name];
    if (!value.has_value() || std::isnan(*value)) continue;
    changed_ = true;
    ++entry.row_count;
    const bool asks_more = entry.bound.at_least ? *value < entry.required
                                                : *value > entry.required;
    if (entry.row >= 0 && !asks_more) continue;
    entry.required = *value;
    entry.row = row;
  }
}

void RequiredTolerances::Show(v1::Comparison& comparison) const {
  changed_ = false;
  comparison.clear_required_tolerances();
  for (const auto& [key, entries] : entries_) {
    for (const Entry& entry : entries) {
      if (entry.row < 0) continue;
      v1::RequiredTolerance& out = *comparison.add_required_tolerances();
      out.set_rule(key.first);
      out.set_predicate(key.second->text());
      out.set_metric(std::string(MetricNames()[entry.bound.name]));
      out.set_at_least(entry.bound.at_least);
      out.set_bound(entry.bound.number);
      out.set_required(entry.required);
      out.set_row(entry.row);
      out.set_row_count(entry.row_count);
    }
  }
}

}  // namespace msitd::compare
