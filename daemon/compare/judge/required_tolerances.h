// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/finding_limits.h"

namespace msitd::compare {

// Determines the bounds with which the rows would pass. Collects, for every
// bound of the predicates in use, the tightest number that all rows so far
// satisfy. Also counts the rows that fail with any bounds. Tracks at most
// kRequiredTolerancesMax bounds; bounds of predicates that are used later are
// ignored.
//
// Thread-compatible.
class RequiredTolerances {
 public:
  // Adds the metrics of a row to which `verification` applies. Absent metrics
  // are ignored.
  void Add(const Verification& verification, const RowMetrics& metrics,
           int64_t row);
  // Like Add, for a row of statistics. Metrics that need many elements are
  // undefined for statistics. A row does not count as failing because of them.
  void AddStatistics(const Verification& verification,
                     const RowMetrics& metrics, int64_t row);

  // Records that `row` fails, for any reason. If the row has metrics, they must
  // be added first.
  void AddFailure(int64_t row);

  // Replaces the results in `comparison`. An entry for max_abs with NaN as its
  // bound belongs to the entry before it; see RequiredTolerance.bound.
  void Show(v1::Comparison& comparison) const;

  // Returns whether a result has changed since the last Show.
  bool changed() const { return changed_; }

 private:
  struct Entry {
    predicate::Predicate::Bound bound;
    bool is_element_tolerance = false;
    double required = 0;
    int64_t row = -1;
    int64_t row_count = 0;
    // The largest max_abs of the rows whose metric is infinite, and the number
    // of its row. No finite bound of the metric satisfies these rows, which
    // occur if golden values are 0.
    double max_abs = 0;
    int64_t max_abs_row = -1;
  };
  // A rule and its predicate. The address identifies the predicate, because
  // predicates exist as long as the policy.
  using Key = std::pair<int, const predicate::Predicate*>;

  // Updates the required number of each bound.
  void AddBounds(const Verification& verification, const RowMetrics& metrics,
                 int64_t row);
  // Records whether the row fails but would pass with other bounds.
  void AddVerdict(const Verification& verification, const RowMetrics& metrics,
                  int64_t row);
  // Records max_abs of a row that no finite bound of the metric satisfies, if
  // max_abs is finite. Returns false for all other rows.
  static bool TakesMaxAbs(const RowMetrics& metrics, int64_t row, Entry& entry);
  // Returns an entry for every bound, up to the maximum number.
  std::vector<Entry> EntriesOf(const Verification& verification);

  std::map<Key, std::vector<Entry>> entries_;
  size_t count_ = 0;
  // The last row that fails but would pass with other bounds; -1 if there is
  // none.
  int64_t curable_row_ = -1;
  int64_t hopeless_count_ = 0;
  int64_t first_hopeless_row_ = -1;
  mutable bool changed_ = false;
};

}  // namespace msitd::compare
