// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "msitd/v1/comparison_service.pb.h"

// Ranks of a row whose tensor was assembled from shards. `row.rank` is then the
// number of a group of ranks, and names no rank.
namespace msitd::ask {

// Returns the ranks of all shards of the row, such as `0-3,8`; empty if no side
// was assembled.
std::string ShardRanksText(const v1::ComparisonRow& row);

// Returns the group, its ranks, and the rank whose piece has the largest
// difference, such as `group 0 (ranks 0-1); largest difference in the piece of
// target rank 1`. The piece is left out if the reason of the row does not name
// it. Empty if no side was assembled. Printable.
std::string ShardsText(const v1::ComparisonRow& row);

}  // namespace msitd::ask
