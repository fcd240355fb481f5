// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/run_losses.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/status/status.h"

namespace msitd::compare {

namespace {

struct StoredRecords {
  uint64_t complete = 0;
  uint64_t incomplete = 0;
};

absl::StatusOr<StoredRecords> CountRecords(storage::RunReader& run,
                                           int32_t rank,
                                           storage::StopCheck stop) {
  Selector selector;
  selector.ranks = {rank};
  selector.kinds = EveryRecordKind();
  MSITD_ASSIGN_OR_RETURN(const auto scan, run.Scan(selector, ""));
  storage::TensorInfo record;
  for (uint64_t count = 0;; ++count) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(record, stop));
    if (!more) return StoredRecords{count, scan->incomplete_count()};
  }
}

std::set<int32_t> OpenRanks(const ActivitySource& activity,
                            const std::string& run) {
  std::set<int32_t> out;
  if (activity == nullptr) return out;
  for (const RankActivity& rank : activity(run).ranks) {
    if (rank.state == RankActivity::State::kOpen) out.insert(rank.rank);
  }
  return out;
}

}  // namespace

RunLosses LossesByRank::Total() const {
  RunLosses out;
  out.unread_place_count = unread_place_count;
  for (const auto& [rank, losses] : ranks) {
    out.dropped_count += losses.dropped_count;
    out.truncated_count += losses.truncated_count;
    out.lost_count += losses.lost_count;
  }
  return out;
}

absl::StatusOr<LossesByRank> FindLosses(
    storage::RunReader& run, absl::FunctionRef<bool(int32_t rank)> selects,
    const ActivitySource* activity, storage::StopCheck stop) {
  const auto open_ranks = [&] {
    return activity == nullptr ? std::set<int32_t>()
                               : OpenRanks(*activity, run.name());
  };
  // Streams can end before the coverage is read, and begin before that.
  std::set<int32_t> open = open_ranks();
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RankCoverage> coverage,
                         run.ListCoverage());
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, run.GetInfo());
  open.merge(open_ranks());
  LossesByRank out;
  out.unread_place_count = info.counters.unread_place_count;
  uint64_t requested = 0;
  uint64_t accounted = info.counters.record_count();
  for (const storage::RankCoverage& rank : coverage) {
    requested += rank.requested_count();
    accounted += rank.AccountedCount(0, 0);
  }
  // Usually equal, which the counters show without a scan.
  const bool may_lack = activity != nullptr && requested != accounted;
  for (const storage::RankCoverage& rank : coverage) {
    if (!selects(rank.rank)) continue;
    RunLosses& losses = out.ranks[rank.rank];
    losses.dropped_count =
        rank.total.dropped_count + rank.repeats.dangling_count;
    losses.truncated_count = rank.total.truncated_count;
    if (!may_lack || open.contains(rank.rank)) continue;
    MSITD_ASSIGN_OR_RETURN(const StoredRecords stored,
                           CountRecords(run, rank.rank, stop));
    const uint64_t known =
        rank.AccountedCount(stored.complete, stored.incomplete);
    losses.lost_count =
        rank.requested_count() - std::min(rank.requested_count(), known);
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
