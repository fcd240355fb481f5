// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"

// How much of its tolerance a row uses up.
namespace msitd::ask {

// The error of a metric as a share of its bound: 0 for none, 1 at the bound,
// infinite beyond every measure.
struct BoundShare {
  std::string metric;
  double share = 0;
};

// `value` of `metric` against a bound, which is a lower one if `at_least`. Of a
// metric without a unit whose bound is a lower one, 1 is taken for the best
// value; one in dB is a logarithm.
double ShareOf(const v1::Metric& metric, double value, double bound,
               bool at_least);

// The bounds of a comparison, by the predicates of its rows. Thread-compatible.
class Bounds {
 public:
  // `metrics` are those that the daemon has.
  Bounds(const v1::Comparison& comparison,
         const std::vector<v1::Metric>& metrics);

  // The metric that decided: of a row that fails, the first of its predicate
  // that is beyond its bound; of one that passes, that which is nearest to it.
  // Absent for other rows, and where no metric with a bound is defined.
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

}  // namespace msitd::ask
