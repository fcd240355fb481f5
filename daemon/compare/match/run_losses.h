// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include "absl/status/statusor.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/tensor_group.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// What a run lacks of the tensors that its ranks recorded; see v1.RunLosses.
struct RunLosses {
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  uint64_t incomplete_count = 0;
  uint64_t unread_place_count = 0;

  friend bool operator==(const RunLosses&, const RunLosses&) = default;
};

// Returns what clients reported as lost of the ranks that the comparison takes,
// and how many places of the log the daemon of the run could not read.
// A record whose bytes were to be those of another, which was dropped, counts
// as dropped too. `incomplete_count` stays 0.
//
// Errors: those of the reader.
absl::StatusOr<RunLosses> FindReportedLosses(storage::RunReader& run,
                                             const GroupMatcher& matcher,
                                             bool is_target);

// Adds up the incomplete tensors of the groups of one run. Groups that have
// ranks in common, because shards of one belong to several, pass over the same
// tensors: those of a token count once if the ranks of one group contain those
// of the other.
class IncompleteCounter {
 public:
  // Groups are added in the order of their tokens, each once.
  void Add(int64_t token, const IncompleteTensors& tensors);

  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  int64_t token_ = -1;
  std::set<int32_t> ranks_;  // That were looked at, at `token_`.
};

}  // namespace msitd::compare
