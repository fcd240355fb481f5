// SPDX-License-Identifier: Apache-2.0
#include "client/text/conclusion.h"

#include <gtest/gtest.h>

namespace msitd::ctl {
namespace {

TEST(ConclusionTest, RowsForLackOfRanksAreNeverAPass) {
  v1::Comparison comparison;
  comparison.set_state(v1::Comparison::DONE);
  comparison.set_pass_count(2);
  EXPECT_EQ(ConclusionOf(comparison, false), Conclusion::kPass);
  comparison.set_unmatched_count(2);
  EXPECT_EQ(ConclusionOf(comparison, false), Conclusion::kFail);
  comparison.set_for_want_of_ranks_count(2);
  EXPECT_EQ(ConclusionOf(comparison, false), Conclusion::kPartial);
  EXPECT_EQ(ConclusionOf(comparison, true), Conclusion::kPass);
}

}  // namespace
}  // namespace msitd::ctl
