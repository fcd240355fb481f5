// SPDX-License-Identifier: Apache-2.0
#include "client/fleet/comparison_plan.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "client/text/text.h"

namespace msitd::ctl {
namespace {

// Ranks that a filter may name.
constexpr int64_t kFilterRanksMax = 4096;

RankSet RanksOf(const v1::TensorFilter& filter) {
  RankSet::Ranges ranges;
  for (const int32_t rank : filter.ranks()) {
    v1::RankRange& range = *ranges.Add();
    range.set_first(rank);
    range.set_last(rank);
  }
  return RankSet(ranges);
}

// Whether numbers of ranks mean the same in both runs and in a filter.
bool AreRanksAlike(const v1::Matching& matching) {
  return matching.golden_layouts_size() == 0 &&
         matching.target_layouts_size() == 0 && matching.ranks_size() == 0;
}

// Whether each node holds the same ranks of both runs.
bool AreAligned(const RunShares& golden, const RunShares& target) {
  for (size_t i = 0; i < golden.held.size(); ++i) {
    if (golden.held[i] != target.held[i]) return false;
  }
  return true;
}

class Splitter {
 public:
  Splitter(const v1::CreateComparisonRequest& request, const RunShares& golden,
           const RunShares& target)
      : request_(request),
        golden_(golden),
        target_(target),
        wanted_(RanksOf(request.comparison().filter())),
        are_ranks_alike_(AreRanksAlike(request.comparison().matching())),
        needs_filters_(are_ranks_alike_ && !AreAligned(golden, target)) {
    for (size_t i = 0; i < golden.held.size(); ++i) {
      taken_ = taken_.Union(golden.held[i].Intersection(target.held[i]));
    }
  }

  bool IsAsked(size_t node) const {
    return golden_.has[node] && target_.has[node];
  }

  // The ranks that node `node` is to compare, for a filter. Called for each
  // node that is asked, in their order.
  RankSet TakeRanks(size_t node) {
    const RankSet both = golden_.held[node].Intersection(target_.held[node]);
    const RankSet either = golden_.held[node].Union(target_.held[node]);
    const RankSet mine = both.Union(either.Minus(taken_));
    taken_ = taken_.Union(either);
    return Wanted(mine);
  }

  bool needs_filters() const { return needs_filters_; }

  // Ranks of a run that have to be covered.
  RankSet RequiredOf(const RunShares& run) const {
    const RankSet all = run.AllHeld().Union(run.lacking);
    if (are_ranks_alike_) return Wanted(all);
    // Daemons find out which ranks a filter or pairs of ranks stand for.
    const bool takes_all =
        wanted_.empty() && request_.comparison().matching().ranks_size() == 0;
    return takes_all ? all : UncoveredOf(run, all);
  }

  // Those of `required` that no node that is asked holds.
  RankSet UncoveredOf(const RunShares& run, const RankSet& required) const {
    RankSet out = required.Minus(run.lacking);
    for (size_t i = 0; i < run.held.size(); ++i) {
      if (IsAsked(i)) out = out.Minus(run.held[i]);
    }
    return out;
  }

 private:
  RankSet Wanted(const RankSet& ranks) const {
    return wanted_.empty() ? ranks : ranks.Intersection(wanted_);
  }

  const v1::CreateComparisonRequest& request_;
  const RunShares& golden_;
  const RunShares& target_;
  const RankSet wanted_;  // Empty for all.
  const bool are_ranks_alike_;
  // Else every node compares what it has.
  const bool needs_filters_;
  RankSet taken_;
};

Outcome SetFilter(const RankSet& ranks, std::string_view node,
                  v1::TensorFilter& filter) {
  const std::vector<int32_t> list = ranks.Ranks(kFilterRanksMax + 1);
  if (std::ssize(list) > kFilterRanksMax) {
    return UsageError(
        fmt::format("{} has more than {} ranks: name some with --ranks",
                    Printable(node), kFilterRanksMax));
  }
  filter.mutable_ranks()->Assign(list.begin(), list.end());
  return {};
}

}  // namespace

RankSet RunShares::AllHeld() const {
  RankSet out;
  for (const RankSet& ranks : held) out = out.Union(ranks);
  return out;
}

Outcome SplitComparison(const v1::CreateComparisonRequest& request,
                        const std::vector<std::string>& nodes,
                        const RunShares& golden, const RunShares& target,
                        NodeComparisons& out) {
  Splitter splitter(request, golden, target);
  const RankSet golden_required = splitter.RequiredOf(golden);
  const RankSet target_required = splitter.RequiredOf(target);
  out.golden_uncovered = splitter.UncoveredOf(golden, golden_required);
  out.target_uncovered = splitter.UncoveredOf(target, target_required);
  out.requests.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!splitter.IsAsked(i)) continue;
    auto copy = std::make_unique<v1::CreateComparisonRequest>(request);
    v1::Comparison& comparison = *copy->mutable_comparison();
    if (splitter.needs_filters()) {
      const RankSet mine = splitter.TakeRanks(i);
      if (mine.empty()) continue;
      MSITCTL_RETURN_IF_FAILED(
          SetFilter(mine, nodes[i], *comparison.mutable_filter()));
    }
    golden_required.Write(*comparison.mutable_golden_required_ranks());
    target_required.Write(*comparison.mutable_target_required_ranks());
    comparison.set_golden_run_id(golden.ids[i]);
    comparison.set_target_run_id(target.ids[i]);
    out.requests[i] = std::move(copy);
  }
  return {};
}

}  // namespace msitd::ctl
