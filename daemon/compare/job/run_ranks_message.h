// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/base/rank_set.h"
#include "protos/base/rank_set_message.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// Sets the fields that report from which ranks an answer was computed. Each has
// at most kRankRangesMax ranges.
template <typename Message>
void ToMessage(const storage::RunRanks& ranks, Message& out) {
  AppendRanges(RankSet::Of(ranks.held), *out.mutable_ranks_held(),
               kRankRangesMax);
  AppendRanges(ranks.lacking, *out.mutable_ranks_lacking(), kRankRangesMax);
  out.set_partial(!ranks.lacking.empty());
}

}  // namespace msitd::compare
