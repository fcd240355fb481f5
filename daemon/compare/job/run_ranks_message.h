// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "storage/run_ranks.h"

namespace msitd::compare {

// A message has so many ranges of ranks at most; the rest is left out.
inline constexpr int kRankRangesMax = 4096;

// Adds ascending ranks as ranges, each a message with `first` and `last`.
template <typename Ranges>
void AddRankRanges(std::span<const int32_t> ranks, Ranges& out) {
  for (size_t i = 0; i < ranks.size();) {
    if (out.size() == kRankRangesMax) return;
    const size_t begin = i++;
    while (i < ranks.size() && ranks[i] == ranks[i - 1] + 1) ++i;
    auto& range = *out.Add();
    range.set_first(ranks[begin]);
    range.set_last(ranks[i - 1]);
  }
}

// Fills the fields of a message that says what it is made of.
template <typename Message>
void ToMessage(const storage::RunRanks& ranks, Message& out) {
  AddRankRanges(ranks.held, *out.mutable_ranks_held());
  AddRankRanges(ranks.lacking, *out.mutable_ranks_lacking());
  out.set_partial(!ranks.lacking.empty());
}

}  // namespace msitd::compare
