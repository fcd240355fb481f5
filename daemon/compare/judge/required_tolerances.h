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

namespace msitd::compare {

// Bounds that are kept track of; those of later predicates are left out.
inline constexpr size_t kRequiredTolerancesMax = 256;

// Collects, for every bound of the predicates that decide, the bound that all
// rows so far would satisfy, and the rows that fail whatever the bounds are.
// Thread-compatible.
class RequiredTolerances {
 public:
  // Takes the metrics of a row that `verification` decides. A metric that is
  // absent asks for nothing.
  void Add(const Verification& verification, const RowMetrics& metrics,
           int64_t row);
  // The same for statistics, which tell nothing of metrics of many elements:
  // what a predicate asks of these is no reason to fail.
  void AddStatistics(const Verification& verification,
                     const RowMetrics& metrics, int64_t row);

  // Notes that `row` fails, for whatever reason. Called after Add if the row
  // has metrics.
  void AddFailure(int64_t row);

  // Replaces the fields that this class fills. An entry for max_abs whose bound
  // is NaN belongs to the one before it: see RequiredTolerance.bound.
  void Show(v1::Comparison& comparison) const;

  // True if Add has changed anything since the last Show.
  bool changed() const { return changed_; }

 private:
  struct Entry {
    predicate::Predicate::Bound bound;
    bool is_element_tolerance = false;
    double required = 0;
    int64_t row = -1;
    int64_t row_count = 0;
    // For rows whose metric is infinite, as next to zeros, so that no finite
    // bound serves: the largest max_abs, and its row.
    double max_abs = 0;
    int64_t max_abs_row = -1;
  };
  // Predicates live as long as the policy and are told apart by their address.
  using Key = std::pair<int, const predicate::Predicate*>;

  // Notes what the row asks of each bound.
  void AddBounds(const Verification& verification, const RowMetrics& metrics,
                 int64_t row);
  // Notes whether other bounds would let the row pass.
  void AddVerdict(const Verification& verification, const RowMetrics& metrics,
                  int64_t row);
  // Notes a row that no finite bound serves, but max_abs does. False for any
  // other row.
  static bool TakesMaxAbs(const RowMetrics& metrics, int64_t row, Entry& entry);
  // Makes an entry for every bound, as long as there is room.
  std::vector<Entry> EntriesOf(const Verification& verification);

  std::map<Key, std::vector<Entry>> entries_;
  size_t count_ = 0;
  // The last row that fails but would pass with other bounds.
  int64_t curable_row_ = -1;
  int64_t hopeless_count_ = 0;
  int64_t first_hopeless_row_ = -1;
  mutable bool changed_ = false;
};

}  // namespace msitd::compare
