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

// The arguments and results of these two ascend.
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

// Returns the ranks of the world from which the policy requests something and
// that have no data.
RankSet FindLacking(const RunInfo& run, const Ranks& held) {
  if (run.spec.world_size <= 0) return {};
  RankSet requested({{0, run.spec.world_size - 1}});
  capture::Policies policies;
  if (!run.capture_policy.empty() &&
      capture::Decode(run.capture_policy, policies)) {
    const capture::RecordedRanks recorded =
        capture::FindRecordedRanks(policies);
    const RankSet others = RankSet::Of(recorded.others);
    requested = recorded.has_most ? requested.Minus(others)
                                  : requested.Intersection(others);
  }
  return requested.Minus(RankSet::Of(held));
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

absl::StatusOr<RunRanks> FindRunRanks(RunReader& run,
                                      std::span<const int32_t> selected) {
  MSITD_ASSIGN_OR_RETURN(const RunInfo info, run.GetInfo());
  return FindRunRanks(run, info, selected);
}

absl::StatusOr<RunRanks> FindRunRanks(RunReader& run, const RunInfo& info,
                                      std::span<const int32_t> selected) {
  RunRanks out;
  MSITD_ASSIGN_OR_RETURN(out.held, run.ListRanks());
  out.lacking = FindLacking(info, out.held);
  if (!selected.empty()) {
    Ranks wanted(selected.begin(), selected.end());
    std::sort(wanted.begin(), wanted.end());
    out.held = Intersection(out.held, wanted);
    out.lacking = out.lacking.Intersection(RankSet::Of(wanted));
  }
  if (out.lacking.empty()) return out;
  MSITD_ASSIGN_OR_RETURN(Ranks left_out, FindLeftOut(run, info));
  std::erase_if(left_out, [&](int32_t rank) { return !out.lacking.Has(rank); });
  out.lacking = out.lacking.Minus(RankSet::Of(left_out));
  out.held = Union(out.held, left_out);
  return out;
}

}  // namespace msitd::storage
