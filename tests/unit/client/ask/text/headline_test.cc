// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace msitd::ask {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

v1::Comparison Finished(int64_t pass, int64_t fail, int64_t unmatched = 0) {
  v1::Comparison out;
  out.set_golden_run("good");
  out.set_target_run("bad");
  out.set_state(v1::Comparison::DONE);
  out.set_pass_count(pass);
  out.set_fail_count(fail);
  out.set_unmatched_count(unmatched);
  return out;
}

v1::ComparisonRow Row(const std::string& op) {
  v1::ComparisonRow row;
  row.set_op(op);
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  row.set_rank(1);
  row.set_token(3);
  return row;
}

// A comparison that fails from `a.b` on, with a maker of this kind.
v1::Comparison FailedBy(v1::Maker::Kind kind) {
  v1::Comparison out = Finished(7, 2);
  *out.mutable_first_divergence() = Row("a.b");
  *out.mutable_first_inequality() = Row("a.b");
  v1::Maker& maker = *out.add_makers();
  maker.set_kind(kind);
  maker.set_op("a.b");
  *maker.mutable_row() = Row("a.b");
  return out;
}

std::string TextOf(const v1::Comparison& comparison) {
  return Headline(comparison, false);
}

TEST(HeadlineTest, AnOpThatIsWrongIsNamedWithItsErrors) {
  v1::Comparison comparison = FailedBy(v1::Maker::OP);
  const std::string from =
      "bad differs from good from a.b on (rank 1, token 3)";
  EXPECT_EQ(TextOf(comparison), from + ". 2 of 9 tensors fail.");
  v1::Maker& maker = *comparison.mutable_makers(0);
  maker.set_output_error(0.0886);
  EXPECT_EQ(TextOf(comparison),
            from +
                ": its inputs are equal, its output differs by 8.9 %. 2 of "
                "9 tensors fail.");
  maker.set_input_error(0.00652);
  EXPECT_EQ(TextOf(comparison),
            from +
                ": its inputs differ by 0.65 %, its output by 8.9 %. 2 of 9 "
                "tensors fail.");
  maker.set_output_error(std::numeric_limits<double>::infinity());
  EXPECT_EQ(TextOf(comparison), from + ". 2 of 9 tensors fail.");
}

TEST(HeadlineTest, EveryKindOfCauseHasItsSentence) {
  EXPECT_THAT(TextOf(FailedBy(v1::Maker::WEIGHT)),
              HasSubstr("its weight 0 is another one"));
  v1::Comparison code = FailedBy(v1::Maker::OWN_CODE);
  EXPECT_THAT(TextOf(code), HasSubstr("from the own code of a.b on"));
  code.mutable_makers(0)->set_after("a.b.x");
  code.mutable_makers(0)->set_before("a.b.y");
  EXPECT_THAT(TextOf(code),
              HasSubstr("the own code of a.b after a.b.x and before a.b.y on"));
  EXPECT_THAT(TextOf(FailedBy(v1::Maker::MODEL_INPUTS)),
              HasSubstr("the inputs of the model differ already"));
  EXPECT_THAT(TextOf(FailedBy(v1::Maker::DRIFT)),
              HasSubstr("no single op is to blame"));
  EXPECT_THAT(TextOf(FailedBy(v1::Maker::FLIP)),
              HasSubstr("a choice differs within the noise"));
  EXPECT_THAT(TextOf(FailedBy(v1::Maker::NOT_KNOWN)),
              HasSubstr("which op made the difference is not known"));
  v1::Comparison copies = FailedBy(v1::Maker::COPIES);
  copies.mutable_makers(0)->add_ranks(3);
  EXPECT_THAT(TextOf(copies),
              HasSubstr("the copies of a.b differ between ranks: rank 3 is not "
                        "like the others"));
}

TEST(HeadlineTest, WhatMayBeMissingIsNotHidden) {
  v1::Comparison comparison = FailedBy(v1::Maker::OP);
  comparison.set_may_diverge_before(true);
  EXPECT_THAT(TextOf(comparison), HasSubstr("at or before a.b"));
  comparison = FailedBy(v1::Maker::NOT_KNOWN);
  comparison.mutable_makers(0)->clear_op();
  EXPECT_THAT(TextOf(comparison), HasSubstr("the order of execution is not"));
}

TEST(HeadlineTest, TensorsWithoutACounterpartAreCounted) {
  EXPECT_EQ(TextOf(Finished(0, 0, 5)),
            "bad and good have no tensor in common: 5 tensors are in only one "
            "of them.");
  EXPECT_EQ(TextOf(Finished(4, 0, 1)),
            "bad agrees with good in 4 tensors, but 1 tensor is in only one of "
            "them.");
  v1::Comparison comparison = FailedBy(v1::Maker::OP);
  comparison.set_unmatched_count(4);
  EXPECT_THAT(TextOf(comparison),
              EndsWith("2 of 9 tensors fail, 4 without a counterpart."));
}

TEST(HeadlineTest, OnlyEqualRunsAreCalledEqual) {
  v1::Comparison comparison = Finished(3, 0);
  EXPECT_EQ(TextOf(comparison),
            "bad equals good: the same values in 3 tensors.");
  v1::Comparison in_any_order = comparison;
  in_any_order.mutable_matching()->add_target_views()->set_view("any_order(0)");
  EXPECT_EQ(TextOf(in_any_order),
            "bad equals good: the same values in 3 tensors, in any order of "
            "rows where views permit it.");
  comparison.set_sampled_count(1);
  EXPECT_EQ(TextOf(comparison),
            "bad agrees with good: 3 tensors within tolerance.");
  comparison.set_sampled_count(0);
  *comparison.mutable_first_inequality() = Row("a");
  comparison.set_skipped_count(2);
  EXPECT_EQ(TextOf(comparison),
            "bad agrees with good: 3 tensors within tolerance, 2 not "
            "compared.");
}

TEST(HeadlineTest, APartialAnswerIsNoAgreement) {
  v1::Comparison comparison = Finished(3, 0);
  comparison.set_partial(true);
  EXPECT_THAT(TextOf(comparison), HasSubstr("which is not everything"));
  EXPECT_EQ(Headline(comparison, true),
            "bad agrees with good: 3 tensors within tolerance.");
}

TEST(HeadlineTest, AComparisonThatHasNotFinishedHasNone) {
  v1::Comparison comparison = FailedBy(v1::Maker::OP);
  comparison.set_state(v1::Comparison::RUNNING);
  EXPECT_EQ(TextOf(comparison), "");
}

TEST(HeadlineTest, ForeignNamesAreMadePrintable) {
  v1::Comparison comparison = Finished(1, 0);
  comparison.set_target_run("a\x1b[31m");
  EXPECT_EQ(TextOf(comparison).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace msitd::ask
