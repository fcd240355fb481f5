// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "storage/run_ranks.h"

namespace msitd::compare {

// Maximum number of ranges of ranks in a message. Further ranges are omitted.
inline constexpr int kRankRangesMax = 4096;

// Adds ranges of ranks, each as a message with the fields `first` and `last`.
template <typename Ranges>
void AddRankRanges(std::span<const storage::RankRange> ranks, Ranges& out) {
  for (const storage::RankRange& range : ranks) {
    if (out.size() == kRankRangesMax) return;
    auto& message = *out.Add();
    message.set_first(range.first);
    message.set_last(range.last);
  }
}

// Sets the fields that report from which ranks an answer was computed.
template <typename Message>
void ToMessage(const storage::RunRanks& ranks, Message& out) {
  AddRankRanges(storage::ToRanges(ranks.held), *out.mutable_ranks_held());
  AddRankRanges(ranks.lacking, *out.mutable_ranks_lacking());
  out.set_partial(!ranks.lacking.empty());
}

}  // namespace msitd::compare
