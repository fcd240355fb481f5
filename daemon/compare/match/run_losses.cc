// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/run_losses.h"

#include <algorithm>
#include <vector>

#include "protos/status/status.h"

namespace msitd::compare {

absl::StatusOr<RunLosses> FindReportedLosses(storage::RunReader& run,
                                             const GroupMatcher& matcher,
                                             bool is_target) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RankCoverage> coverage,
                         run.ListCoverage());
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, run.GetInfo());
  RunLosses out;
  out.unread_place_count = info.counters.unread_place_count;
  for (const storage::RankCoverage& rank : coverage) {
    const uint64_t dropped =
        rank.total.dropped_count + rank.repeats.dangling_count;
    if (dropped == 0 && rank.total.truncated_count == 0) continue;
    if (matcher.GroupNumbersOf(is_target, rank.rank).empty()) continue;
    out.dropped_count += dropped;
    out.truncated_count += rank.total.truncated_count;
  }
  return out;
}

void IncompleteCounter::Add(int64_t token, const IncompleteTensors& tensors) {
  if (token != token_) ranks_.clear();
  token_ = token;
  const bool is_new =
      std::any_of(tensors.ranks.begin(), tensors.ranks.end(),
                  [this](int32_t rank) { return !ranks_.contains(rank); });
  if (is_new) count_ += tensors.count;
  ranks_.insert(tensors.ranks.begin(), tensors.ranks.end());
}

}  // namespace msitd::compare
