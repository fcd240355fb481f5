// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/rank_set.h"

// Splits a comparison among the nodes that hold shares of its runs.
//
// A node compares the ranks of which it has both runs. No node can miss the
// ranks that others hold, so what the whole answer has to cover is settled
// here, once and before any node is asked: the ranks that any node holds, and
// those that a run lacks by its world size. Every request carries this set, so
// that the parts of the answer are partial wherever and whenever they are read.
namespace msitd::ask {

// The ranks of one run, by node.
struct RunShares {
  explicit RunShares(size_t node_count)
      : held(node_count), has(node_count), ids(node_count) {}

  // The ranks that any node holds, and the ranks that no node holds.
  RankSet AllHeld() const;

  std::vector<RankSet> held;
  std::vector<bool> has;  // A node may have the run without a rank of it.
  std::vector<std::string> ids;  // Run.id; empty for a node without the run.
  RankSet lacking;               // By the world size, on all nodes.
  // Ranks of which several nodes hold different records. No single node can
  // compare them.
  RankSet split;
  // Tensors may be sharded over ranks in a way that only daemons know. Set if
  // there are `split` ranks.
  bool has_placements = false;
};

struct NodeComparisons {
  // Null for a node that is not asked.
  std::vector<std::unique_ptr<v1::CreateComparisonRequest>> requests;
  // Ranks that have to be covered and that no request covers.
  RankSet golden_uncovered;
  RankSet target_uncovered;
};

// Advice for comparisons that nodes cannot do separately.
inline constexpr std::string_view kAtAdvice =
    "to compare all rows, select a node that reads from the others: --at NODE";

// Advice for split ranks. A node refuses a token that several nodes have
// records of, so `--at` may not help.
inline constexpr std::string_view kSplitAdvice =
    "to compare such a rank, use --at NODE, if each of its tokens is on one "
    "node only; to leave it out, use --ranks";

// Whether a rank has the same number in both runs and in a filter. If not,
// every node compares all that it has of both runs.
bool AreRanksAlike(const v1::Matching& matching);

// `node1 and node2 hold different records of rank 0 of run tp8`, for a run with
// split ranks.
std::string SplitText(const std::string& run, const RunShares& shares,
                      const std::vector<std::string>& nodes);

// Splits `request`. Every node that has both runs is asked for the ranks that
// it holds of both. A rank that no node has of both runs is asked of the first
// node that has it of either run, so that its tensors are reported as not
// compared and neither run seems to lack it everywhere. A rank of which
// several nodes hold copies is compared by the first of them. Split ranks are
// required, but no node compares them, so that every part of the answer is
// partial. If no node has a rank that the filter names, the first node is
// asked: it answers as a single daemon does.
//
// Errors: a usage error if a node has more ranks than a filter takes;
// kExitPartial if split ranks leave nothing to compare, or cannot be left out
// because layouts, a rank map or placements join ranks.
Outcome SplitComparison(const v1::CreateComparisonRequest& request,
                        const std::vector<std::string>& nodes,
                        const RunShares& golden, const RunShares& target,
                        NodeComparisons& out);

}  // namespace msitd::ask
