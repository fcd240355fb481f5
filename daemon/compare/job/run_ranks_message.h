// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "storage/run_ranks.h"

namespace msitd::compare {

// A message has so many ranges of ranks at most; the rest is left out.
inline constexpr int kRankRangesMax = 4096;

// Adds ranges of ranks, each as a message with `first` and `last`.
template <typename Ranges>
void AddRankRanges(std::span<const storage::RankRange> ranks, Ranges& out) {
  for (const storage::RankRange& range : ranks) {
    if (out.size() == kRankRangesMax) return;
    auto& message = *out.Add();
    message.set_first(range.first);
    message.set_last(range.last);
  }
}

// Fills the fields of a message that says what it is made of.
template <typename Message>
void ToMessage(const storage::RunRanks& ranks, Message& out) {
  AddRankRanges(storage::ToRanges(ranks.held), *out.mutable_ranks_held());
  AddRankRanges(ranks.lacking, *out.mutable_ranks_lacking());
  out.set_partial(!ranks.lacking.empty());
}

}  // namespace msitd::compare
