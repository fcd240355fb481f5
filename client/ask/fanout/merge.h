// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"

// Makes one answer of those of many daemons. Nothing that a daemon says is
// trusted to fit what another says.
namespace msitd::ask {

class RankSet;

// The answer of one node.
struct Part {
  const google::protobuf::Message* message = nullptr;
  std::string_view node;
  // Of a comparison: the ranks of its runs that the node holds. Null if that is
  // not known.
  const RankSet* golden_held = nullptr;
  const RankSet* target_held = nullptr;
};

// Whether answers of this type can be merged.
bool CanMerge(const google::protobuf::Descriptor& type);

// Merges one or more answers of the type of `out`, for which CanMerge is true.
// Groups and sums are merged in the order of the first rank that each node
// holds. What the nodes disagree about is added to `notes`, a line each.
void Merge(std::vector<Part> parts, google::protobuf::Message& out,
           std::vector<std::string>& notes);

// True if the comparisons of several nodes count something of a whole run, so
// that MergeComparisons needs to know which ranks of it each node holds.
bool NeedsHeldRanks(const std::vector<Part>& comparisons);

// Merges Comparison, for Merge. `parts` are of one or more nodes.
//
// Counts of rows add up. Counts of a run are those of all ranks that a node
// holds, whichever of them it compares. A rank that several nodes hold counts
// once, as an equal share of what the later node counts.
void MergeComparisons(const std::vector<Part>& parts, v1::Comparison& out);

// The order in which one daemon would list two rows of a type: negative if `a`
// comes first, 0 if neither does.
int CompareRows(const google::protobuf::Message& a,
                const google::protobuf::Message& b);

// Whether rows that CompareRows finds equal are one row of the list: runs are.
bool AreJoined(const google::protobuf::Descriptor& row);

}  // namespace msitd::ask
