// SPDX-License-Identifier: Apache-2.0
#include "storage/run_ranks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "protos/capture/capture_policy.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Takes out what is not selected. Both ascend.
void Keep(std::span<const int32_t> selected, std::vector<int32_t>& ranks) {
  std::vector<int32_t> kept;
  std::set_intersection(ranks.begin(), ranks.end(), selected.begin(),
                        selected.end(), std::back_inserter(kept));
  ranks = std::move(kept);
}

// Ranks that streamed and were asked for nothing. Hooks hand over nothing of
// what a policy leaves out, so that no count tells; but one that recorded
// nothing though everything was asked of it has not come.
bool WasLeftOut(const RankCoverage& rank, const capture::Policies& policies) {
  const StreamCoverage& total = rank.total;
  if (total.seen_count > 0) return total.seen_count <= total.filtered_count;
  return !policies.empty() && !capture::RecordsAllAtFirst(policies, rank.rank);
}

// Moves ranks whose clients were asked for nothing from one to the other.
absl::Status MoveLeftOut(ChunkStore& store, const RunInfo& run,
                         RunRanks& ranks) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<RankCoverage> coverage,
                         store.GetCoverage(run.spec.name));
  capture::Policies policies;
  if (!capture::Decode(run.capture_policy, policies)) policies.clear();
  for (const RankCoverage& rank : coverage) {
    if (!WasLeftOut(rank, policies)) continue;
    const auto at =
        std::lower_bound(ranks.lacking.begin(), ranks.lacking.end(), rank.rank);
    if (at == ranks.lacking.end() || *at != rank.rank) continue;
    ranks.lacking.erase(at);
    ranks.held.insert(
        std::lower_bound(ranks.held.begin(), ranks.held.end(), rank.rank),
        rank.rank);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunRanks> FindRunRanks(ChunkStore& store, const RunInfo& run,
                                      std::span<const int32_t> selected) {
  RunRanks out;
  MSITD_ASSIGN_OR_RETURN(out.held, store.ListRanks(run.spec.name));
  capture::Policies policies;
  const bool has_policies = !run.capture_policy.empty() &&
                            capture::Decode(run.capture_policy, policies);
  auto next = out.held.begin();
  for (int32_t rank = 0; rank < run.spec.world_size; ++rank) {
    while (next != out.held.end() && *next < rank) ++next;
    const bool is_held = next != out.held.end() && *next == rank;
    if (!is_held && (!has_policies || capture::MayRecord(policies, rank))) {
      out.lacking.push_back(rank);
    }
  }
  if (!selected.empty()) {
    std::vector<int32_t> wanted(selected.begin(), selected.end());
    std::sort(wanted.begin(), wanted.end());
    Keep(wanted, out.held);
    Keep(wanted, out.lacking);
  }
  if (!out.lacking.empty()) {
    MSITD_RETURN_IF_ERROR(MoveLeftOut(store, run, out));
  }
  return out;
}

absl::StatusOr<RunRanks> FindRunRanks(ChunkStore& store, std::string_view run,
                                      std::span<const int32_t> selected) {
  MSITD_ASSIGN_OR_RETURN(const RunInfo info, store.GetRun(run));
  return FindRunRanks(store, info, selected);
}

}  // namespace msitd::storage
