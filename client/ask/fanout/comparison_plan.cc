// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/comparison_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "client/ask/text/text.h"
#include "protos/base/rank_set_message.h"

namespace msitd::ask {
namespace {

// Ranks that a filter may name.
constexpr size_t kFilterRanksMax = 4096;

// Whether each node holds the same ranks of both runs.
bool AreAligned(const RunShares& golden, const RunShares& target) {
  for (size_t i = 0; i < golden.held.size(); ++i) {
    if (golden.held[i] != target.held[i]) return false;
  }
  return true;
}

// Whether two nodes hold the same rank of a run.
bool HasCopies(const RunShares& run) {
  RankSet seen;
  for (const RankSet& held : run.held) {
    if (!seen.Intersection(held).empty()) return true;
    seen = seen.Union(held);
  }
  return false;
}

class Splitter {
 public:
  Splitter(const v1::CreateComparisonRequest& request, const RunShares& golden,
           const RunShares& target)
      : request_(request),
        golden_(golden),
        target_(target),
        wanted_(RankSetOfEach(request.comparison().filter().ranks())),
        split_(golden.split.Union(target.split)),
        are_ranks_alike_(AreRanksAlike(request.comparison().matching())),
        needs_filters_(are_ranks_alike_ &&
                       (!AreAligned(golden, target) || HasCopies(golden))) {
    for (size_t i = 0; i < golden.held.size(); ++i) {
      const RankSet both = golden.held[i].Intersection(target.held[i]);
      golden_taken_ = golden_taken_.Union(both);
      target_taken_ = target_taken_.Union(both);
    }
  }

  bool IsAsked(size_t node) const {
    return golden_.has[node] && target_.has[node];
  }

  // The ranks that node `node` is to compare, for a filter. Called for each
  // node that is asked, in their order.
  RankSet TakeRanks(size_t node) {
    const RankSet& golden = golden_.held[node];
    const RankSet& target = target_.held[node];
    const RankSet both = golden.Intersection(target);
    const RankSet apart =
        golden.Minus(golden_taken_).Union(target.Minus(target_taken_));
    const RankSet mine = both.Minus(compared_).Union(apart).Minus(split_);
    compared_ = compared_.Union(both);
    golden_taken_ = golden_taken_.Union(golden);
    target_taken_ = target_taken_.Union(target);
    return Wanted(mine);
  }

  // Split ranks that the comparison would look at.
  RankSet WantedSplit() const {
    return CanLeaveOutRanks() ? Wanted(split_) : split_;
  }

  // Returns whether a filter can exclude the tensors of a rank from a
  // comparison.
  bool CanLeaveOutRanks() const {
    return are_ranks_alike_ && !golden_.has_placements &&
           !target_.has_placements;
  }

  bool needs_filters() const { return needs_filters_; }

  // Ranks of a run that have to be covered.
  RankSet RequiredOf(const RunShares& run, bool is_target) const {
    const RankSet all = run.AllHeld().Union(run.lacking);
    if (are_ranks_alike_) return Wanted(all);
    // Daemons resolve the ranks of a filter using layouts.
    const v1::Matching& matching = request_.comparison().matching();
    if (matching.ranks_size() == 0) {
      return wanted_.empty() ? all : UncoveredOf(run, all);
    }
    return all.Intersection(MappedRanks(matching, is_target))
        .Union(UncoveredOf(run, all));
  }

  // Returns those of `required` that no selected node compares.
  RankSet UncoveredOf(const RunShares& run, const RankSet& required) const {
    RankSet out = required.Minus(run.lacking);
    for (size_t i = 0; i < run.held.size(); ++i) {
      if (IsAsked(i)) out = out.Minus(run.held[i]);
    }
    return out.Union(required.Intersection(split_));
  }

 private:
  RankSet Wanted(const RankSet& ranks) const {
    return wanted_.empty() ? ranks : ranks.Intersection(wanted_);
  }

  // Returns the ranks of one run that a rank map names, as far as they are
  // selected.
  RankSet MappedRanks(const v1::Matching& matching, bool is_target) const {
    std::vector<int32_t> out;
    for (const v1::Matching::RankPair& pair : matching.ranks()) {
      if (!wanted_.empty() && !wanted_.Has(pair.golden_rank())) continue;
      out.push_back(is_target ? pair.target_rank() : pair.golden_rank());
    }
    return RankSet::Of(out);
  }

  const v1::CreateComparisonRequest& request_;
  const RunShares& golden_;
  const RunShares& target_;
  const RankSet wanted_;  // Empty for all.
  const RankSet split_;
  const bool are_ranks_alike_;
  // Otherwise, every node compares all ranks that it has.
  const bool needs_filters_;
  // Ranks of each run that a node has been asked for, or will be because it
  // has them of both runs.
  RankSet golden_taken_;
  RankSet target_taken_;
  RankSet compared_;  // Ranks whose tensors of both runs are compared.
};

Outcome SetFilter(const RankSet& ranks, std::string_view node,
                  v1::TensorFilter& filter) {
  const std::vector<int32_t> list = ranks.Ranks(kFilterRanksMax + 1);
  if (list.size() > kFilterRanksMax) {
    return UsageError(
        fmt::format("{} has more than {} ranks: select some with --ranks",
                    Printable(node), kFilterRanksMax));
  }
  filter.mutable_ranks()->Assign(list.begin(), list.end());
  return {};
}

// The nodes that hold one of `ranks` of a run.
std::string HoldersOf(const RankSet& ranks, const RunShares& run,
                      const std::vector<std::string>& nodes) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!run.held[i].Intersection(ranks).empty()) out.push_back(nodes[i]);
  }
  return fmt::format("{}", fmt::join(out, " and "));
}

}  // namespace

bool AreRanksAlike(const v1::Matching& matching) {
  return matching.golden_layouts_size() == 0 &&
         matching.target_layouts_size() == 0 && matching.ranks_size() == 0;
}

std::string SplitText(const std::string& run, const RunShares& shares,
                      const std::vector<std::string>& nodes) {
  return fmt::format("{} hold different records of rank{} {} of run {}",
                     HoldersOf(shares.split, shares, nodes),
                     shares.split.count() == 1 ? "" : "s", shares.split.Text(),
                     run);
}

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
  const v1::Comparison& asked = request.comparison();
  const bool is_split = !splitter.WantedSplit().empty();
  const auto refused = [&](std::string_view why) -> Outcome {
    const bool is_golden = !golden.split.empty();
    return {kExitPartial,
            Printable(fmt::format(
                "nothing was compared: {}{}; {}",
                SplitText(is_golden ? asked.golden_run() : asked.target_run(),
                          is_golden ? golden : target, nodes),
                why, kSplitAdvice))};
  };
  if (is_split && !splitter.CanLeaveOutRanks()) {
    return refused(", and other ranks cannot be compared without them");
  }
  const RankSet golden_required = splitter.RequiredOf(golden, false);
  const RankSet target_required = splitter.RequiredOf(target, true);
  out.golden_uncovered = splitter.UncoveredOf(golden, golden_required);
  out.target_uncovered = splitter.UncoveredOf(target, target_required);
  out.requests.resize(nodes.size());
  const auto ask = [&](size_t node) -> v1::Comparison& {
    auto copy = std::make_unique<v1::CreateComparisonRequest>(request);
    v1::Comparison& comparison = *copy->mutable_comparison();
    AppendRanges(golden_required, *comparison.mutable_golden_required_ranks());
    AppendRanges(target_required, *comparison.mutable_target_required_ranks());
    comparison.set_golden_run_id(golden.ids[node]);
    comparison.set_target_run_id(target.ids[node]);
    out.requests[node] = std::move(copy);
    return comparison;
  };
  std::optional<size_t> first;
  bool is_anyone_asked = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!splitter.IsAsked(i)) continue;
    if (!first.has_value()) first = i;
    if (!splitter.needs_filters()) {
      ask(i);
      is_anyone_asked = true;
      continue;
    }
    const RankSet mine = splitter.TakeRanks(i);
    if (mine.empty()) continue;
    is_anyone_asked = true;
    MSITCTL_RETURN_IF_FAILED(
        SetFilter(mine, nodes[i], *ask(i).mutable_filter()));
  }
  if (is_anyone_asked || !first.has_value()) return {};
  if (is_split) return refused("");
  ask(*first);
  return {};
}

}  // namespace msitd::ask
