// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "client/ask/fanout/merge.h"
#include "msitd/v1/merge_rule.pb.h"
#include "protos/base/rank_set.h"

namespace msitd::ask {
namespace {

v1::ComparisonRow RowAt(int64_t token, int64_t sequence, int32_t rank) {
  v1::ComparisonRow row;
  row.set_token(token);
  row.set_sequence(sequence);
  row.set_rank(rank);
  return row;
}

// Returns the comparison of a node that holds one rank of two.
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

TEST(MergeComparisonsTest, WhatWasNotCheckedMakesTheWholePartial) {
  v1::Comparison other = OfRank(1);
  other.mutable_golden_losses()->set_dropped_count(3);
  v1::Comparison first = OfRank(0);
  first.mutable_golden_losses()->set_dropped_count(2);
  first.mutable_golden_losses()->set_incomplete_count(1);
  v1::Comparison all = Merged(first, other);
  EXPECT_TRUE(all.partial());
  EXPECT_EQ(all.golden_losses().dropped_count(), 5);
  EXPECT_EQ(all.golden_losses().incomplete_count(), 1);
  EXPECT_FALSE(all.has_target_losses());

  other = OfRank(1);
  other.set_not_compared_count(1);
  *other.mutable_first_not_compared() = RowAt(1, 0, 1);
  all = Merged(OfRank(0), other);
  EXPECT_TRUE(all.partial());
  EXPECT_EQ(all.not_compared_count(), 1);
  EXPECT_EQ(all.first_not_compared().rank(), 1);
}

TEST(MergeComparisonsTest, RowsForLackOfRanksMakeTheWholePartial) {
  // Each node lacks the ranks that the other node holds.
  v1::Comparison parts[] = {OfRank(0), OfRank(1)};
  for (v1::Comparison& part : parts) {
    part.set_pass_count(1);
    part.set_unmatched_count(1);
    part.set_for_want_of_ranks_count(1);
  }
  const v1::Comparison all = Merged(parts[0], parts[1]);
  EXPECT_FALSE(all.golden_ranks().partial());
  EXPECT_TRUE(all.partial());
}

TEST(MergeComparisonsTest, RecordsThatWereLostMayPrecedeTheFirstDivergence) {
  v1::Comparison failing = OfRank(0);
  *failing.mutable_first_divergence() = RowAt(2, 0, 0);
  v1::Comparison other = OfRank(1);
  EXPECT_FALSE(Merged(failing, other).may_diverge_before());
  other.mutable_target_losses()->set_dropped_count(1);
  EXPECT_TRUE(Merged(failing, other).may_diverge_before());
  other.clear_target_losses();
  other.set_not_compared_count(1);
  *other.mutable_first_not_compared() = RowAt(3, 0, 1);
  EXPECT_FALSE(Merged(failing, other).may_diverge_before());
  *other.mutable_first_not_compared() = RowAt(2, 0, 1);
  EXPECT_TRUE(Merged(failing, other).may_diverge_before());
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
    // All ranks are available.
    EXPECT_FALSE(all.may_diverge_before());
  }
}

void AddMaker(const std::string& op, double error, int64_t token, int32_t rank,
              v1::Comparison& out) {
  v1::Maker& maker = *out.add_makers();
  maker.set_kind(v1::Maker::OP);
  maker.set_op(op);
  maker.set_output_error(error);
  *maker.mutable_row() = RowAt(token, 0, rank);
}

TEST(MergeComparisonsTest, FirstMakerOfNodesLeadsAndTheWorstFollow) {
  v1::Comparison a = OfRank(0);
  *a.mutable_first_divergence() = RowAt(2, 0, 0);
  v1::Comparison b = OfRank(1);
  *b.mutable_first_divergence() = RowAt(2, 1, 1);
  for (const int i : {5, 4, 3}) AddMaker("a" + std::to_string(i), i, 2, 0, a);
  for (const int i : {7, 6, 1}) AddMaker("b" + std::to_string(i), i, 2, 1, b);
  // The maker `both` occurs on both nodes, so it is one maker of two ranks.
  AddMaker("both", 9, 2, 0, a);
  AddMaker("both", 9, 2, 1, b);
  a.set_more_makers_count(3);
  b.set_more_makers_count(3);
  const v1::Comparison all = Merged(a, b);
  ASSERT_EQ(all.makers_size(), 5);
  EXPECT_EQ(all.makers(0).op(), "a5");
  EXPECT_EQ(all.makers(1).op(), "both");
  ASSERT_EQ(all.makers(1).ranks_size(), 1);
  EXPECT_EQ(all.makers(1).ranks(0), 1);
  EXPECT_EQ(all.makers(2).op(), "b7");
  EXPECT_EQ(all.makers(4).op(), "a4");
  EXPECT_EQ(all.more_makers_count(), 5);
  EXPECT_EQ(all.first_origin().rank(), 0);
  EXPECT_EQ(all.first_origin().token(), 2);
}

TEST(MergeComparisonsTest, WhatMayFollowFromAnotherNodeIsNoMaker) {
  v1::Comparison a = OfRank(0);
  *a.mutable_first_divergence() = RowAt(2, 0, 0);
  AddMaker("a", 0.5, 2, 0, a);
  v1::Comparison b = OfRank(1);
  *b.mutable_first_divergence() = RowAt(2, 0, 1);
  AddMaker("given", 1, 2, 1, b);
  b.mutable_makers(0)->set_input_error(1e-6);
  AddMaker("received", 2, 2, 1, b);
  b.mutable_makers(1)->set_note(
      "or the code before it: its inputs are not on record");
  AddMaker("code", 3, 2, 1, b);
  b.mutable_makers(2)->set_kind(v1::Maker::OWN_CODE);
  AddMaker("weight", 4, 2, 1, b);
  b.mutable_makers(3)->set_kind(v1::Maker::WEIGHT);
  b.set_more_makers_count(7);
  const v1::Comparison all = Merged(a, b);
  ASSERT_EQ(all.makers_size(), 2);
  EXPECT_EQ(all.makers(0).op(), "a");
  EXPECT_EQ(all.makers(1).op(), "weight");
  EXPECT_EQ(all.more_makers_count(), 0);
}

TEST(MergeComparisonsTest, WhatANodeFoundLaterIsNoMaker) {
  v1::Comparison a = OfRank(0);
  *a.mutable_first_divergence() = RowAt(2, 0, 0);
  AddMaker("a", 0.5, 2, 0, a);
  v1::Comparison b = OfRank(1);
  *b.mutable_first_divergence() = RowAt(3, 0, 1);
  AddMaker("b", 9, 3, 1, b);
  b.set_more_makers_count(4);
  for (const v1::Comparison& all : {Merged(a, b), Merged(b, a)}) {
    ASSERT_EQ(all.makers_size(), 1);
    EXPECT_EQ(all.makers(0).op(), "a");
    EXPECT_EQ(all.more_makers_count(), 0);
  }
}

TEST(MergeComparisonsTest, WithoutTheOrderOfAPartNothingHasAMaker) {
  v1::Comparison known = OfRank(0);
  *known.mutable_first_divergence() = RowAt(2, 0, 0);
  v1::Maker& maker = *known.add_makers();
  maker.set_kind(v1::Maker::OP);
  maker.set_op("op");
  *maker.mutable_row() = RowAt(2, 0, 0);
  *known.mutable_first_origin() = RowAt(2, 0, 0);
  v1::Comparison unknown = OfRank(1);
  *unknown.mutable_first_divergence() = RowAt(2, 9, 1);
  *unknown.add_concurrent_divergences() = RowAt(2, 10, 1);
  *unknown.add_concurrent_divergences() = RowAt(3, 1, 1);
  unknown.add_makers()->set_kind(v1::Maker::NOT_KNOWN);
  for (const v1::Comparison& all :
       {Merged(known, unknown), Merged(unknown, known)}) {
    EXPECT_EQ(all.first_divergence().sequence(), 0);
    EXPECT_EQ(all.concurrent_divergences_size(), 2);
    ASSERT_EQ(all.makers_size(), 1);
    EXPECT_EQ(all.makers(0).kind(), v1::Maker::NOT_KNOWN);
    EXPECT_FALSE(all.has_first_origin());
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

RankSet Ranks(int32_t first, int32_t last) { return RankSet({{first, last}}); }

TEST(MergeComparisonsTest, ARankThatTwoNodesHoldCountsOnce) {
  v1::Comparison a = OfRank(0);
  a.set_golden_left_out_count(6);
  a.set_golden_conflict_count(2);
  a.set_target_left_out_count(4);
  v1::Comparison b = OfRank(1);
  b.set_golden_left_out_count(6);
  b.set_golden_conflict_count(2);
  b.set_target_left_out_count(4);
  const RankSet both = Ranks(0, 1);
  const RankSet first = Ranks(0, 0);
  const RankSet second = Ranks(1, 1);
  v1::Comparison all;
  MergeComparisons({{&a, "a", &both, &first}, {&b, "b", &both, &second}}, all);
  EXPECT_EQ(all.golden_left_out_count(), 6);
  EXPECT_EQ(all.golden_conflict_count(), 2);
  EXPECT_EQ(all.target_left_out_count(), 8);
  // Node `a` also holds one of the two ranks of `b`.
  const RankSet later = Ranks(1, 2);
  MergeComparisons({{&a, "a", &both, &first}, {&b, "b", &later, &second}}, all);
  EXPECT_EQ(all.golden_left_out_count(), 9);
  // The ranks that the nodes hold are unknown.
  EXPECT_EQ(Merged(a, b).golden_left_out_count(), 12);
}

TEST(MergeComparisonsTest, WhatHooksDidNotRecordIsThatOfTheRanksAskedFor) {
  v1::Comparison a = OfRank(0);
  a.set_golden_not_recorded_count(3);
  v1::Comparison b = OfRank(1);
  b.set_golden_not_recorded_count(3);
  const RankSet both = Ranks(0, 1);
  v1::Comparison all;
  MergeComparisons({{&a, "a", &both}, {&b, "b", &both}}, all);
  EXPECT_EQ(all.golden_not_recorded_count(), 3);
  a.mutable_filter()->add_ranks(0);
  b.mutable_filter()->add_ranks(1);
  MergeComparisons({{&a, "a", &both}, {&b, "b", &both}}, all);
  EXPECT_EQ(all.golden_not_recorded_count(), 6);
  EXPECT_EQ(all.filter().ranks_size(), 2);
}

// A new number of Comparison needs a rule, unless other fields of all parts
// together determine it.
TEST(MergeComparisonsTest, EveryWholeNumberHasARule) {
  const std::set<std::string> derived = {"first_hopeless_row",
                                         "more_makers_count"};
  v1::Comparison one = OfRank(0);
  const auto& type = *v1::Comparison::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    if (field->cpp_type() != field->CPPTYPE_INT64) continue;
    const v1::MergeRule rule = field->options().GetExtension(v1::merge_rule);
    EXPECT_NE(rule == v1::MERGE_RULE_UNSPECIFIED,
              !derived.contains(field->name()))
        << field->name();
    one.GetReflection()->SetInt64(&one, field, 5);
  }
  const RankSet both = Ranks(0, 1);
  v1::Comparison all;
  MergeComparisons({{&one, "a", &both, &both}, {&one, "b", &both, &both}}, all);
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    if (field->cpp_type() != field->CPPTYPE_INT64) continue;
    const v1::MergeRule rule = field->options().GetExtension(v1::merge_rule);
    EXPECT_EQ(all.GetReflection()->GetInt64(all, field),
              rule == v1::SUM ? 10 : 5)
        << field->name();
  }
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
}  // namespace msitd::ask
