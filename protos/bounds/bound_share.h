// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"

// The metrics of a row, and the share of its tolerance that it uses.
namespace msitd {

// Returns the metric with this name, if the row has it.
std::optional<double> MetricOf(const v1::ComparisonRow& row,
                               std::string_view name);

// The error of a metric as a share of its bound: 0 for no error, 1 at the
// bound, infinite if it cannot be expressed.
struct BoundShare {
  std::string metric;
  double share = 0;
};

// Returns the share of `value` of `metric` in a bound, which is a lower bound
// if `at_least`. For a lower bound of a metric without a unit, 1 is the best
// value. A metric in dB is logarithmic.
double ShareOf(const v1::Metric& metric, double value, double bound,
               bool at_least);

// The bounds of a comparison, by the predicates of its rows. Thread-compatible.
class Bounds {
 public:
  // `metrics` are those of the daemon.
  Bounds(const v1::Comparison& comparison,
         const std::vector<v1::Metric>& metrics);

  // Returns the metric that decided. For a row that fails, this is the first
  // metric of its predicate that exceeds its bound; for a row that passes, the
  // metric that is nearest to its bound. Absent for other rows, and if no
  // metric with a bound is defined.
  std::optional<BoundShare> Decided(const v1::ComparisonRow& row) const;

 private:
  struct Bound {
    v1::Metric metric;
    double bound = 0;
    bool at_least = false;
  };

  static std::optional<double> ShareIn(const v1::ComparisonRow& row,
                                       const Bound& bound);
  std::optional<BoundShare> OfElements(const v1::ComparisonRow& row) const;

  // In the order of the predicate.
  std::map<std::string, std::vector<Bound>, std::less<>> by_predicate_;
};

}  // namespace msitd
