// SPDX-License-Identifier: Apache-2.0
#include "protos/bounds/bound_share.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msitd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A ratio of amplitudes.
constexpr double kDecibelsPerDecade = 20;

v1::Metric MetricNamed(const std::vector<v1::Metric>& metrics,
                       const std::string& name) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(),
                   [&name](const v1::Metric& m) { return m.name() == name; });
  if (found != metrics.end()) return *found;
  v1::Metric out;
  out.set_name(name);
  return out;
}

// Returns the ratio for a metric whose smaller values are better.
double Ratio(double value, double bound) {
  if (bound > 0) return std::max(value / bound, 0.0);
  return value <= bound ? 0 : kInfinity;
}

}  // namespace

std::optional<double> MetricOf(const v1::ComparisonRow& row,
                               std::string_view name) {
  for (const v1::MetricValue& metric : row.metrics()) {
    if (metric.metric() == name) return metric.value();
  }
  return std::nullopt;
}

double ShareOf(const v1::Metric& metric, double value, double bound,
               bool at_least) {
  if (std::isnan(value)) return kInfinity;
  if (!at_least) return Ratio(value, bound);
  if (metric.unit() == "dB") {
    return std::pow(10, (bound - value) / kDecibelsPerDecade);
  }
  if (metric.unit().empty() && bound < 1) return Ratio(1 - value, 1 - bound);
  if (bound <= 0) return value >= bound ? 0 : kInfinity;
  return value > 0 ? bound / value : kInfinity;
}

Bounds::Bounds(const v1::Comparison& comparison,
               const std::vector<v1::Metric>& metrics) {
  for (const v1::RequiredTolerance& needed : comparison.required_tolerances()) {
    // Those of elements are in the row, since rules that differ in them have
    // one predicate. An alternative to a bound has none of its own.
    if (needed.element_tolerance() || std::isnan(needed.bound())) continue;
    std::vector<Bound>& bounds = by_predicate_[needed.predicate()];
    const auto same = [&needed](const Bound& b) {
      return b.metric.name() == needed.metric() && b.bound == needed.bound();
    };
    if (std::any_of(bounds.begin(), bounds.end(), same)) continue;
    bounds.push_back({MetricNamed(metrics, needed.metric()), needed.bound(),
                      needed.at_least()});
  }
}

std::optional<double> Bounds::ShareIn(const v1::ComparisonRow& row,
                                      const Bound& bound) {
  const auto value = MetricOf(row, bound.metric.name());
  if (!value.has_value()) return std::nullopt;
  return ShareOf(bound.metric, *value, bound.bound, bound.at_least);
}

std::optional<BoundShare> Bounds::OfElements(
    const v1::ComparisonRow& row) const {
  // Either of the two leaves no outlier.
  std::optional<BoundShare> out;
  const auto take = [&](const char* metric, double bound) {
    const auto value = MetricOf(row, metric);
    if (!value.has_value()) return;
    const double share = Ratio(*value, bound);
    if (!out.has_value() || share < out->share) out = {metric, share};
  };
  if (row.has_atol()) take("atol_needed", row.atol());
  if (row.has_rtol()) take("rtol_needed", row.rtol());
  return out;
}

std::optional<BoundShare> Bounds::Decided(const v1::ComparisonRow& row) const {
  const bool fails = row.verdict() == v1::FAIL;
  if (!fails && row.verdict() != v1::PASS) return std::nullopt;
  std::optional<BoundShare> out = OfElements(row);
  const auto found = by_predicate_.find(row.predicate());
  if (found != by_predicate_.end()) {
    for (const Bound& bound : found->second) {
      if (fails && out.has_value() && out->share > 1) break;
      const auto share = ShareIn(row, bound);
      if (!share.has_value()) continue;
      if (!out.has_value() || *share > out->share) {
        out = {bound.metric.name(), *share};
      }
    }
  }
  if (!out.has_value()) return out;
  // Under `or`, a passing row may exceed a bound.
  if (!fails) out->share = std::min(out->share, 1.0);
  // A row that fails within all of its bounds fails for another reason.
  if (fails && out->share < 1) return std::nullopt;
  return out;
}

}  // namespace msitd
