// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/shards_text.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

TEST(ShardsTextTest, TheRankOfTheWrongPieceIsNamed) {
  v1::ComparisonRow row;
  row.set_reason(
      "nl2 = 1, needs <= 1e-4; largest difference at [1,2]: target "
      "9.5, golden 7");
  EXPECT_EQ(ShardRanksText(row), "");
  EXPECT_EQ(ShardsText(row), "");
  row.mutable_target()->add_ranks(0);
  row.mutable_target()->add_ranks(1);
  EXPECT_EQ(ShardRanksText(row), "0-1");
  EXPECT_EQ(ShardsText(row), "group 0 (ranks 0-1)");
  row.set_reason(row.reason() +
                 ", in the shard of target rank 1; worst row 3: 1");
  EXPECT_EQ(ShardsText(row),
            "group 0 (ranks 0-1); largest difference in the piece of target "
            "rank 1");
  row.mutable_golden()->add_ranks(8);
  row.set_reason(
      "at [1]: 1, in the shard of target rank 1, in the shard of "
      "golden rank 8");
  EXPECT_EQ(ShardRanksText(row), "0-1,8");
  EXPECT_EQ(ShardsText(row),
            "group 0 (ranks 0-1 (golden 8)); largest difference in the piece "
            "of target rank 1 and of golden rank 8");
}

TEST(ShardsTextTest, OtherTextNamesNoPiece) {
  v1::ComparisonRow row;
  row.mutable_target()->add_ranks(0);
  row.set_reason("x, in the shard of target rank , in the shard of nothing");
  EXPECT_EQ(ShardsText(row), "group 0 (rank 0)");
}

}  // namespace
}  // namespace msitd::ask
