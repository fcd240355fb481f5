// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/compare/view/gather.h"

namespace msitd::compare {

// Maximum number of runs of elements that are kept for one tensor, and that are
// visited for all tensors of a group.
inline constexpr size_t kCoverageRunsMax = size_t{1} << 14;
inline constexpr uint64_t kCoverageBudget = uint64_t{1} << 24;

// The elements of a tensor that views read.
//
// A tensor that is compared only in views needs no counterpart, but only if
// these views read all of its elements. A part of a view is a set of strides,
// so that this can usually be verified without a bit for each element: parts of
// a fused projection differ only in their position within a row.
//
// Thread-compatible.
class Coverage {
 public:
  explicit Coverage(uint64_t element_count) : element_count_(element_count) {}

  // Adds the elements of source `leaf` that a term of a view reads. `budget` is
  // the number of runs that may be visited, and decreases by those that were.
  void Add(const Gather& term, uint32_t leaf, uint64_t& budget);

  // Returns true if all elements are read. Returns false if some are not, or if
  // this is not known because of a limit.
  bool IsComplete(uint64_t& budget) const;

  // Returns the same for the elements of source `leaf` that `term` reads.
  bool Covers(const Gather& term, uint32_t leaf, uint64_t& budget) const;

 private:
  // Begin and end of consecutive elements.
  using Interval = std::pair<uint64_t, uint64_t>;

  // Returns whether intervals cover 0 to `end` - 1.
  static bool CoverUpTo(std::vector<Interval> intervals, uint64_t end);
  // Appends the elements of runs. Returns false if the budget does not suffice.
  static bool ListElements(const std::vector<GatherRun>& runs,
                           std::vector<Interval>& out, uint64_t& budget);

  // Returns whether the runs are the same in each row of the tensor and cover a
  // row.
  bool CoversEachRow() const;
  bool CoversAll(uint64_t& budget) const;
  static void Keep(GatherRun run, std::vector<GatherRun>& runs);

  const uint64_t element_count_;
  bool is_all_ = false;
  std::vector<GatherRun> runs_;
};

}  // namespace msitd::compare
