// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/tensor/ordered_tensors.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace msitd::msitctl {
namespace {

v1::Tensor At(int64_t token, int64_t sequence, int32_t rank) {
  v1::Tensor out;
  out.set_token(token);
  out.set_sequence(sequence);
  out.set_rank(rank);
  return out;
}

TEST(OrderedTensorsTest, TokensGoBeforePositionsAndTheseBeforeRanks) {
  const std::vector<v1::Tensor> in_order = {At(0, 5, 1), At(1, 2, 3),
                                            At(1, 4, 0), At(1, 4, 1)};
  for (size_t i = 0; i < in_order.size(); ++i) {
    for (size_t j = 0; j < in_order.size(); ++j) {
      EXPECT_EQ(IsExecutedBefore(in_order[i], in_order[j]), i < j) << i << j;
    }
  }
}

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges UpTo(int64_t last, const Ranges& ranges) {
  v1::TensorFilter filter;
  for (const auto& [first, end] : ranges) {
    v1::TokenRange& range = *filter.add_tokens();
    range.set_first(first);
    range.set_last(end);
  }
  Ranges out;
  const v1::TensorFilter kept = UpToToken(filter, last);
  for (const v1::TokenRange& range : kept.tokens()) {
    out.emplace_back(range.first(), range.last());
  }
  return out;
}

TEST(OrderedTensorsTest, LaterTokensAreLeftOut) {
  EXPECT_EQ(UpTo(3, {}), (Ranges{{0, 3}}));
  EXPECT_EQ(UpTo(3, {{5, 9}, {1, 4}, {3, 3}}), (Ranges{{1, 3}, {3, 3}}));
  EXPECT_EQ(UpTo(9, {{5, 9}}), (Ranges{{5, 9}}));
}

}  // namespace
}  // namespace msitd::msitctl
