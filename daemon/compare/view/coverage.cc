// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/coverage.h"

#include <algorithm>
#include <utility>

namespace msitd::compare {
namespace {

using Interval = std::pair<uint64_t, uint64_t>;  // Begin and end.

// Returns whether intervals cover 0 to `end` - 1.
bool Covers(std::vector<Interval> intervals, uint64_t end) {
  std::sort(intervals.begin(), intervals.end());
  uint64_t covered = 0;
  for (const auto& [first, last] : intervals) {
    if (first > covered) return false;
    covered = std::max(covered, last);
  }
  return covered >= end;
}

}  // namespace

void Coverage::Add(const Gather& term, uint32_t leaf, uint64_t& budget) {
  if (is_all_ || !term.uses(leaf)) return;
  if (term.keeps_all()) {
    is_all_ = true;
    runs_.clear();
    return;
  }
  // Elements that are left out for lack of budget count as not read.
  uint64_t visited = 0;
  term.VisitElements(budget, [&](const GatherRun& run) {
    ++visited;
    if (run.leaf == leaf) Keep(run);
  });
  budget -= std::min(budget, visited);
}

void Coverage::Keep(GatherRun run) {
  if (run.stride == 0) run.count = 1;
  if (!runs_.empty() && run.count == 1 && runs_.back().count == 1) {
    GatherRun& last = runs_.back();
    const uint64_t end = last.from + last.length;
    if (run.from >= last.from && run.from <= end) {
      last.length = std::max(end, run.from + run.length) - last.from;
      return;
    }
  }
  if (runs_.size() < kCoverageRunsMax) runs_.push_back(run);
}

bool Coverage::IsComplete(uint64_t& budget) const {
  return is_all_ || CoversEachRow() || CoversAll(budget);
}

bool Coverage::CoversEachRow() const {
  if (runs_.empty() || runs_.front().stride == 0) return false;
  const uint64_t row = runs_.front().stride;
  if (element_count_ % row != 0) return false;
  std::vector<Interval> intervals;
  for (const GatherRun& run : runs_) {
    if (run.stride == row && run.count == element_count_ / row &&
        run.from + run.length <= row) {
      intervals.emplace_back(run.from, run.from + run.length);
    }
  }
  return Covers(std::move(intervals), row);
}

bool Coverage::CoversAll(uint64_t& budget) const {
  std::vector<Interval> intervals;
  for (const GatherRun& run : runs_) {
    if (run.count == 0 || run.length == 0) continue;
    if (run.stride <= run.length) {
      const uint64_t last = run.from + (run.count - 1) * run.stride;
      intervals.emplace_back(run.from, last + run.length);
      continue;
    }
    if (run.count > budget) {
      budget = 0;
      return false;
    }
    budget -= run.count;
    for (uint64_t i = 0; i < run.count; ++i) {
      const uint64_t from = run.from + i * run.stride;
      intervals.emplace_back(from, from + run.length);
    }
  }
  return Covers(std::move(intervals), element_count_);
}

}  // namespace msitd::compare
