// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/conclusion.h"

#include <gtest/gtest.h>

namespace msitd::ask {
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

TEST(ConclusionTest, RowsThatAreUndecidedAreAllowedByThemselves) {
  const Allowed undecided(/*partial=*/false, /*undecided=*/true);
  v1::Comparison comparison;
  comparison.set_state(v1::Comparison::DONE);
  comparison.set_pass_count(2);
  comparison.set_skipped_count(1);
  comparison.set_not_compared_count(1);
  comparison.set_partial(true);
  EXPECT_EQ(ConclusionOf(comparison, false), Conclusion::kPartial);
  EXPECT_EQ(ConclusionOf(comparison, undecided), Conclusion::kPass);
  // Missing ranks and records are not allowed.
  comparison.mutable_target_losses()->set_dropped_count(1);
  EXPECT_EQ(ConclusionOf(comparison, undecided), Conclusion::kPartial);
  EXPECT_EQ(ConclusionOf(comparison, true), Conclusion::kPass);
  comparison.clear_target_losses();
  comparison.mutable_golden_ranks()->set_partial(true);
  EXPECT_EQ(ConclusionOf(comparison, undecided), Conclusion::kPartial);
  comparison.clear_golden_ranks();
  comparison.set_fail_count(1);
  EXPECT_EQ(ConclusionOf(comparison, undecided), Conclusion::kFail);
  // A comparison without compared tensors does not pass.
  comparison.set_fail_count(0);
  comparison.set_pass_count(0);
  EXPECT_EQ(ConclusionOf(comparison, undecided), Conclusion::kFail);
}

}  // namespace
}  // namespace msitd::ask
