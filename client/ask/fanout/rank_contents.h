// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "client/ask/query/fanout.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "protos/base/rank_set.h"

// Distinguishes copies of a rank from shares of it.
//
// A rank streams to one daemon, so a fan-out compares by rank. Two nodes that
// hold the same rank of a run hold either copies of it, such as a golden run
// that was imported on every node, or different records, such as those from
// before and after a restart on another machine. Copies can be compared on any
// node. Shares cannot be compared on any single node, because each node would
// report the records of the others as missing. Numbers of tensors do not
// distinguish the two. This code therefore requests the hashes that daemons use
// to find equal data (RunReaderService.ListDigests) from each daemon, and keeps
// one hash for each rank. The hashes are in the index: no tensor is read.
namespace msitd::ask {

// Requests that MakeRankContentsCall takes name at most this many ranks.
inline constexpr size_t kContentRanksMax = 4096;

// Returns a call that takes a ListDigestsRequest and returns one
// ListDigestsResponse with one digest for each rank, over all of its devices
// and tokens. Goes on for as long as the daemon makes progress.
Fanout::NodeCall MakeRankContentsCall();

// Returns a call that takes a DescribeRunRequest and returns one
// DescribeRunResponse with the placements of the run, if it has any.
Fanout::NodeCall MakePlacementsCall();

// Collects what several nodes hold of the ranks of one run.
class RankContents {
 public:
  // Adds the answer of one node that holds `ranks`. A rank without a digest
  // counts as different from all others.
  void Add(const RankSet& ranks, const v1::ListDigestsResponse& answer);

  // The ranks of which two nodes hold different records.
  RankSet Different() const;

 private:
  struct Content {
    int64_t record_count = 0;
    uint64_t hash_low = 0;
    uint64_t hash_high = 0;
    int32_t version = 0;
    friend bool operator==(const Content&, const Content&) = default;
  };

  std::map<int32_t, Content> contents_;
  std::set<int32_t> different_;
};

}  // namespace msitd::ask
