// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/stream_watch.h"
#include "daemon/compare/match/tensor_group.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// The numbers of recorded tensors that a run lacks; see v1.RunLosses.
struct RunLosses {
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  uint64_t incomplete_count = 0;
  uint64_t lost_count = 0;
  uint64_t unread_place_count = 0;

  friend bool operator==(const RunLosses&, const RunLosses&) = default;
};

struct LossesByRank {
  // Those of the ranks that reported what they recorded. `incomplete_count` and
  // `unread_place_count` are 0.
  std::map<int32_t, RunLosses> ranks;
  // Places in the log that the daemon of the run could not read. They may have
  // records of any rank.
  uint64_t unread_place_count = 0;

  // Returns the losses of all these ranks and the unread places.
  RunLosses Total() const;
};

// Returns the losses of the ranks that `selects` accepts. A record that refers
// to the bytes of a dropped record counts as dropped.
//
// Records are lost if a client handed them over and the run has neither them
// nor a reason. Records of an open stream may be in transit and are not lost.
// `activity` states which streams are open; empty: none. `lost_count` is 0 if
// `activity` is null, which it must be for a run of another daemon or an
// archive. If a rank has more records than its client reported before it died,
// they may offset records that are lost.
//
// Takes time proportional to the number of records of a rank that lacks some;
// `stop` is called regularly. Errors: those of the reader and of `stop`.
absl::StatusOr<LossesByRank> FindLosses(
    storage::RunReader& run, absl::FunctionRef<bool(int32_t rank)> selects,
    const ActivitySource* activity, storage::StopCheck stop);

// Counts the incomplete tensors in the groups of one run. If shards of a rank
// belong to several groups, these groups report the same incomplete tensors. At
// each token, the tensors of a group are therefore counted only if it has ranks
// that earlier groups lack.
class IncompleteCounter {
 public:
  // Groups must be added in the order of their tokens, each one once.
  void Add(int64_t token, const IncompleteTensors& tensors);

  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  int64_t token_ = -1;
  // The ranks of the groups that were added for `token_`.
  std::set<int32_t> ranks_;
};

}  // namespace msitd::compare
