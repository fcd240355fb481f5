// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "client/fleet/rank_set.h"
#include "client/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

// Splits a comparison among the nodes that hold shares of its runs.
//
// A node compares the ranks of which it has both runs. No node can miss the
// ranks that others hold, so what the whole answer has to cover is settled
// here, once and before any node is asked: the ranks that any node holds, and
// those that a run lacks by its world size. Every request carries this set, so
// that the parts of the answer are partial wherever and whenever they are read.
namespace msitd::ctl {

// What the nodes hold of one run, by node.
struct RunShares {
  explicit RunShares(size_t node_count)
      : held(node_count), has(node_count), ids(node_count) {}

  // All that a node holds, and all that a node lacks.
  RankSet AllHeld() const;

  std::vector<RankSet> held;
  std::vector<bool> has;  // A node may have the run without a rank of it.
  std::vector<std::string> ids;  // Run.id; empty for a node that has no run.
  RankSet lacking;               // By the world size, on all nodes.
};

struct NodeComparisons {
  // Null for a node that is not asked.
  std::vector<std::unique_ptr<v1::CreateComparisonRequest>> requests;
  // Ranks that have to be covered and that no request covers.
  RankSet golden_uncovered;
  RankSet target_uncovered;
};

// Splits `request`. Every node that has both runs is asked for the ranks that
// it holds of both; ranks that no node has of both runs are asked of the first
// that has one of them, so that it reports what is lacking.
//
// Errors: a usage error if a node has more ranks than a filter takes.
Outcome SplitComparison(const v1::CreateComparisonRequest& request,
                        const std::vector<std::string>& nodes,
                        const RunShares& golden, const RunShares& target,
                        NodeComparisons& out);

}  // namespace msitd::ctl
