// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/coverage.h"

#include <algorithm>
#include <utility>

namespace msitd::compare {

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
    if (run.leaf == leaf) Keep(run, runs_);
  });
  budget -= std::min(budget, visited);
}

void Coverage::Keep(GatherRun run, std::vector<GatherRun>& runs) {
  if (run.stride == 0) run.count = 1;
  if (!runs.empty() && run.count == 1 && runs.back().count == 1) {
    GatherRun& last = runs.back();
    const uint64_t end = last.from + last.length;
    if (run.from >= last.from && run.from <= end) {
      last.length = std::max(end, run.from + run.length) - last.from;
      return;
    }
  }
  if (runs.size() < kCoverageRunsMax) runs.push_back(run);
}

bool Coverage::IsComplete(uint64_t& budget) const {
  return is_all_ || CoversEachRow() || CoversAll(budget);
}

bool Coverage::Covers(const Gather& term, uint32_t leaf,
                      uint64_t& budget) const {
  if (is_all_ || !term.uses(leaf)) return true;
  std::vector<GatherRun> needed_runs;
  uint64_t visited = 0;
  const bool are_all = term.VisitElements(budget, [&](const GatherRun& run) {
    ++visited;
    if (run.leaf == leaf) Keep(run, needed_runs);
  });
  budget -= std::min(budget, visited);
  std::vector<Interval> needed;
  std::vector<Interval> covered;
  if (!are_all || needed_runs.size() == kCoverageRunsMax ||
      !ListElements(needed_runs, needed, budget) ||
      !ListElements(runs_, covered, budget)) {
    return false;
  }
  std::sort(needed.begin(), needed.end());
  std::sort(covered.begin(), covered.end());
  // All elements before this one that are needed are covered.
  uint64_t done = 0;
  auto next = covered.begin();
  for (const auto& [first, end] : needed) {
    done = std::max(done, first);
    while (done < end) {
      if (next == covered.end() || next->first > done) return false;
      done = std::max(done, next->second);
      if (done < end) ++next;
    }
  }
  return true;
}

bool Coverage::CoverUpTo(std::vector<Interval> intervals, uint64_t end) {
  std::sort(intervals.begin(), intervals.end());
  uint64_t covered = 0;
  for (const auto& [first, last] : intervals) {
    if (first > covered) return false;
    covered = std::max(covered, last);
  }
  return covered >= end;
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
  return CoverUpTo(std::move(intervals), row);
}

bool Coverage::CoversAll(uint64_t& budget) const {
  std::vector<Interval> intervals;
  return ListElements(runs_, intervals, budget) &&
         CoverUpTo(std::move(intervals), element_count_);
}

bool Coverage::ListElements(const std::vector<GatherRun>& runs,
                            std::vector<Interval>& out, uint64_t& budget) {
  for (const GatherRun& run : runs) {
    if (run.count == 0 || run.length == 0) continue;
    if (run.stride <= run.length) {
      const uint64_t last = run.from + (run.count - 1) * run.stride;
      out.emplace_back(run.from, last + run.length);
      continue;
    }
    if (run.count > budget) {
      budget = 0;
      return false;
    }
    budget -= run.count;
    for (uint64_t i = 0; i < run.count; ++i) {
      const uint64_t from = run.from + i * run.stride;
      out.emplace_back(from, from + run.length);
    }
  }
  return true;
}

}  // namespace msitd::compare
