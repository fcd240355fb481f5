// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/rank_set.h"

// Merges the answers of many daemons. The answers are not assumed to be
// consistent with each other.
namespace msitd::ask {

// The answer of one node.
struct NodeAnswer {
  const google::protobuf::Message* message = nullptr;
  std::string_view node;
  // For a comparison: the ranks of its runs that the node holds. Null if they
  // are not known.
  const RankSet* golden_held = nullptr;
  const RankSet* target_held = nullptr;
};

// Whether answers of this type can be merged.
bool CanMerge(const google::protobuf::Descriptor& type);

// Merges one or more answers of the type of `out`, for which CanMerge is true.
// Groups and sums are merged in the order of the first rank that each node
// holds. For each disagreement of the nodes, a line is added to `notes`.
void Merge(std::vector<NodeAnswer> parts, google::protobuf::Message& out,
           std::vector<std::string>& notes);

// Returns true if the comparisons of several nodes have counts for a whole run,
// so that MergeComparisons requires the ranks that each node holds.
bool NeedsHeldRanks(const std::vector<NodeAnswer>& comparisons);

// Merges Comparison, for Merge. `parts` are from one or more nodes.
//
// Counts of rows are added. Counts of a run cover all ranks that a node holds,
// including those that it does not compare. A rank that several nodes hold
// counts once, as an equal share of the count of the later node.
void MergeComparisons(const std::vector<NodeAnswer>& parts,
                      v1::Comparison& out);

// Compares two rows in the order in which one daemon would list them. Negative
// if `a` is first, 0 if the order is not defined.
int CompareRows(const google::protobuf::Message& a,
                const google::protobuf::Message& b);

// Whether rows that CompareRows finds equal are one row of the list: runs are.
bool AreJoined(const google::protobuf::Descriptor& row);

}  // namespace msitd::ask
