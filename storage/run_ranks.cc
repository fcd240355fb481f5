// SPDX-License-Identifier: Apache-2.0
#include "storage/run_ranks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "protos/capture/capture_policy.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

using Ranks = std::vector<int32_t>;

// The arguments and results of these three ascend.
Ranks Union(const Ranks& a, const Ranks& b) {
  Ranks out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                 std::back_inserter(out));
  return out;
}

Ranks Intersection(const Ranks& a, const Ranks& b) {
  Ranks out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(out));
  return out;
}

Ranks Difference(const Ranks& a, const Ranks& b) {
  Ranks out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(out));
  return out;
}

// A set of ranks of a world: `ranks`, or all ranks except `ranks`.
struct RankSet {
  bool is_all_but = false;
  Ranks ranks;

  void Remove(const Ranks& removed) {
    ranks = is_all_but ? Union(ranks, removed) : Difference(ranks, removed);
  }

  void Keep(const Ranks& kept) {
    ranks = is_all_but ? Difference(kept, ranks) : Intersection(ranks, kept);
    is_all_but = false;
  }

  Ranks PartOf(const Ranks& some) const {
    return is_all_but ? Difference(some, ranks) : Intersection(some, ranks);
  }
};

// Returns the ranks of the set that are in the world.
std::vector<RankRange> RangesOf(const RankSet& set, int32_t world_size) {
  Ranks ranks = set.ranks;
  const auto is_outside = [world_size](int32_t rank) {
    return rank < 0 || rank >= world_size;
  };
  std::erase_if(ranks, is_outside);
  if (!set.is_all_but) return ToRanges(ranks);
  std::vector<RankRange> out;
  int32_t next = 0;
  for (const int32_t rank : ranks) {
    if (next < rank) out.push_back({next, rank - 1});
    next = rank + 1;
  }
  if (next < world_size) out.push_back({next, world_size - 1});
  return out;
}

// Returns the ranks from which the policy requests something and that have no
// data.
RankSet Lacking(const RunInfo& run, const Ranks& held) {
  RankSet out{.is_all_but = true, .ranks = {}};
  capture::Policies policies;
  if (!run.capture_policy.empty() &&
      capture::Decode(run.capture_policy, policies)) {
    capture::RecordedRanks recorded = capture::FindRecordedRanks(policies);
    out = {recorded.has_most, std::move(recorded.others)};
  }
  out.Remove(held);
  return out;
}

// True if a rank streamed and the policy requested nothing from it. The counts
// are not sufficient to determine this: hooks hand over nothing that a policy
// excludes, so `seen_count` may be 0. In that case, the rank was excluded
// unless the policy requests everything from it (`at_first`); then the rank has
// no data yet.
bool WasLeftOut(const RankCoverage& rank,
                const capture::RecordedRanks& at_first) {
  const StreamCoverage& total = rank.total;
  if (total.seen_count > 0) return total.seen_count <= total.filtered_count;
  return !at_first.Has(rank.rank);
}

absl::StatusOr<Ranks> FindLeftOut(RunReader& reader, const RunInfo& run) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<RankCoverage> coverage,
                         reader.ListCoverage());
  capture::Policies policies;
  capture::RecordedRanks at_first;  // All ranks if there is no policy.
  if (capture::Decode(run.capture_policy, policies)) {
    at_first = capture::FindRanksRecordedAtFirst(policies);
  }
  Ranks out;
  for (const RankCoverage& rank : coverage) {
    const bool is_in_world = rank.rank >= 0 && rank.rank < run.spec.world_size;
    if (is_in_world && WasLeftOut(rank, at_first)) out.push_back(rank.rank);
  }
  return out;
}

}  // namespace

std::vector<RankRange> ToRanges(std::span<const int32_t> ranks) {
  std::vector<RankRange> out;
  for (const int32_t rank : ranks) {
    if (out.empty() || out.back().last + 1 != rank) {
      out.push_back({rank, rank});
    }
    out.back().last = rank;
  }
  return out;
}

absl::StatusOr<RunRanks> FindRunRanks(RunReader& run,
                                      std::span<const int32_t> selected) {
  MSITD_ASSIGN_OR_RETURN(const RunInfo info, run.GetInfo());
  return FindRunRanks(run, info, selected);
}

absl::StatusOr<RunRanks> FindRunRanks(RunReader& run, const RunInfo& info,
                                      std::span<const int32_t> selected) {
  RunRanks out;
  MSITD_ASSIGN_OR_RETURN(out.held, run.ListRanks());
  RankSet lacking = Lacking(info, out.held);
  if (!selected.empty()) {
    Ranks wanted(selected.begin(), selected.end());
    std::sort(wanted.begin(), wanted.end());
    out.held = Intersection(out.held, wanted);
    lacking.Keep(wanted);
  }
  out.lacking = RangesOf(lacking, info.spec.world_size);
  if (out.lacking.empty()) return out;
  MSITD_ASSIGN_OR_RETURN(const Ranks left_out, FindLeftOut(run, info));
  out.held = Union(out.held, lacking.PartOf(left_out));
  lacking.Remove(left_out);
  out.lacking = RangesOf(lacking, info.spec.world_size);
  return out;
}

}  // namespace msitd::storage
