// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "client/fleet/merge.h"

namespace msitd::ctl {
namespace {

v1::ComparisonRow RowAt(int64_t token, int64_t sequence, int32_t rank) {
  v1::ComparisonRow row;
  row.set_token(token);
  row.set_sequence(sequence);
  row.set_rank(rank);
  return row;
}

// What a node says that holds one rank of two.
v1::Comparison OfRank(int32_t rank) {
  v1::Comparison out;
  out.set_name("c-1");
  out.set_state(v1::Comparison::DONE);
  out.set_pass_count(5);
  out.set_first_hopeless_row(-1);
  for (v1::RunRanks* ranks :
       {out.mutable_golden_ranks(), out.mutable_target_ranks()}) {
    auto& held = *ranks->add_ranks_held();
    held.set_first(rank);
    held.set_last(rank);
    auto& lacking = *ranks->add_ranks_lacking();
    lacking.set_first(1 - rank);
    lacking.set_last(1 - rank);
    ranks->set_partial(true);
  }
  out.set_partial(true);
  return out;
}

v1::Comparison Merged(const v1::Comparison& a, const v1::Comparison& b) {
  v1::Comparison out;
  MergeComparisons({{&a, "a"}, {&b, "b"}}, out);
  return out;
}

TEST(MergeComparisonsTest, CountsAddAndTheWholeIsNotPartial) {
  v1::Comparison other = OfRank(1);
  other.set_fail_count(2);
  other.set_first_hopeless_row(7);
  const v1::Comparison all = Merged(OfRank(0), other);
  EXPECT_EQ(all.name(), "c-1@a,b");
  EXPECT_EQ(all.pass_count(), 10);
  EXPECT_EQ(all.fail_count(), 2);
  EXPECT_EQ(all.first_hopeless_row(), 7);
  EXPECT_FALSE(all.partial());
}

TEST(MergeComparisonsTest, FirstDivergenceIsTheFirstOfAll) {
  v1::Comparison late = OfRank(0);
  *late.mutable_first_divergence() = RowAt(3, 0, 0);
  *late.add_makers()->mutable_row() = RowAt(3, 0, 0);
  v1::Comparison early = OfRank(1);
  *early.mutable_first_divergence() = RowAt(2, 9, 1);
  *early.add_makers()->mutable_row() = RowAt(2, 9, 1);
  early.set_may_diverge_before(true);
  for (const v1::Comparison& all : {Merged(late, early), Merged(early, late)}) {
    EXPECT_EQ(all.first_divergence().token(), 2);
    ASSERT_EQ(all.concurrent_divergences_size(), 1);
    EXPECT_EQ(all.concurrent_divergences(0).token(), 3);
    EXPECT_EQ(all.makers(0).row().token(), 2);
    // All ranks are there.
    EXPECT_FALSE(all.may_diverge_before());
  }
}

TEST(MergeComparisonsTest, SequenceGoesBeforeRank) {
  v1::Comparison a = OfRank(0);
  *a.mutable_first_divergence() = RowAt(0, 5, 0);
  v1::Comparison b = OfRank(1);
  *b.mutable_first_divergence() = RowAt(0, 4, 1);
  EXPECT_EQ(Merged(a, b).first_divergence().rank(), 1);
}

TEST(MergeComparisonsTest, LackingRanksStayLacking) {
  const v1::Comparison all = Merged(OfRank(0), OfRank(0));
  EXPECT_TRUE(all.partial());
  ASSERT_EQ(all.target_ranks().ranks_lacking_size(), 1);
  EXPECT_EQ(all.target_ranks().ranks_lacking(0).first(), 1);
}

TEST(MergeComparisonsTest, StateIsTheWorst) {
  v1::Comparison failed = OfRank(0);
  failed.set_state(v1::Comparison::FAILED);
  failed.set_error("the run was deleted");
  failed.set_error_code(5);
  v1::Comparison running = OfRank(1);
  running.set_state(v1::Comparison::RUNNING);
  const v1::Comparison all = Merged(running, failed);
  EXPECT_EQ(all.state(), v1::Comparison::FAILED);
  EXPECT_EQ(all.error(), "the run was deleted");
  EXPECT_EQ(all.error_code(), 5);
  EXPECT_EQ(Merged(OfRank(0), running).state(), v1::Comparison::RUNNING);
}

TEST(MergeComparisonsTest, ToleranceIsTheLoosestThatIsNeeded) {
  const auto needs = [](double required, bool at_least, const char* metric) {
    v1::Comparison out = OfRank(0);
    v1::RequiredTolerance& needed = *out.add_required_tolerances();
    needed.set_metric(metric);
    needed.set_at_least(at_least);
    needed.set_required(required);
    needed.set_row_count(2);
    return out;
  };
  const v1::Comparison upper =
      Merged(needs(0.1, false, "nl2"), needs(0.3, false, "nl2"));
  ASSERT_EQ(upper.required_tolerances_size(), 1);
  EXPECT_EQ(upper.required_tolerances(0).required(), 0.3);
  EXPECT_EQ(upper.required_tolerances(0).row_count(), 4);
  const v1::Comparison lower =
      Merged(needs(0.9, true, "cosine"), needs(0.8, true, "cosine"));
  EXPECT_EQ(lower.required_tolerances(0).required(), 0.8);
  EXPECT_EQ(Merged(needs(1, false, "nl2"), needs(1, true, "cosine"))
                .required_tolerances_size(),
            2);
}

TEST(MergeComparisonsTest, RuleIsIdleIfItIsSoEverywhere) {
  v1::Comparison a = OfRank(0);
  a.add_idle_rules("--rule 'x: nl2 <= 1'");
  a.add_idle_rules("--rule 'y: nl2 <= 1'");
  v1::Comparison b = OfRank(1);
  b.add_idle_rules("--rule 'y: nl2 <= 1'");
  const v1::Comparison all = Merged(a, b);
  ASSERT_EQ(all.idle_rules_size(), 1);
  EXPECT_EQ(all.idle_rules(0), "--rule 'y: nl2 <= 1'");
}

}  // namespace
}  // namespace msitd::ctl
