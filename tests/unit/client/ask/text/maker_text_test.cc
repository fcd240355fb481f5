// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/maker_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace msitd::ask {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::ComparisonRow Row() {
  v1::ComparisonRow row;
  row.set_op("a");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  return row;
}

std::string CodeOf(const std::string& op, const std::string& after,
                   const std::string& before) {
  v1::Maker maker;
  maker.set_kind(v1::Maker::OWN_CODE);
  maker.set_op(op);
  maker.set_after(after);
  maker.set_before(before);
  *maker.mutable_row() = Row();
  return MakerText(maker, /*may_diverge_before=*/false);
}

TEST(MakerTextTest, CodeIsWhereItsNeighboursAreKnown) {
  EXPECT_THAT(CodeOf("a", "a.b", "a.c"),
              StartsWith("own code of a, between a.b and a.c; a output/0"));
  EXPECT_THAT(CodeOf("a", "a.b", ""),
              StartsWith("own code of a, after a.b; a output/0"));
  EXPECT_THAT(CodeOf("a", "", "a.c"),
              StartsWith("own code of a, before a.c; a output/0"));
  EXPECT_THAT(CodeOf("a", "", ""), StartsWith("own code of a; a output/0"));
  EXPECT_THAT(CodeOf("", "b", ""), StartsWith("code after b; a output/0"));
  EXPECT_THAT(CodeOf("", "", ""), StartsWith("code; a output/0"));
}

TEST(MakerTextTest, ARowOfJoinedShardsNamesAllTheirRanks) {
  v1::ComparisonRow row = Row();
  EXPECT_THAT(RowText(row), HasSubstr(" output/0, rank 0, token 0"));
  for (const int rank : {0, 1, 2, 5}) row.mutable_target()->add_ranks(rank);
  EXPECT_THAT(RowText(row), HasSubstr(" output/0, ranks 0-2,5, token 0"));
  for (const int rank : {0, 1}) row.mutable_golden()->add_ranks(rank);
  EXPECT_THAT(RowText(row), HasSubstr(", ranks 0-2,5 (golden 0-1), token 0"));
  row.mutable_target()->clear_ranks();
  EXPECT_THAT(RowText(row), HasSubstr(", ranks 0-1, token 0"));
  row.mutable_golden()->clear_ranks();
  // One of several ranks was selected.
  row.mutable_target()->add_ranks(1);
  EXPECT_THAT(RowText(row), HasSubstr(", rank 1, token 0"));
}

v1::Comparison Unordered(int failing) {
  v1::Comparison out;
  v1::ComparisonRow row;
  row.set_op("layers.2");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  *out.mutable_first_divergence() = row;
  for (int i = 1; i < failing; ++i) *out.add_concurrent_divergences() = row;
  v1::Maker& maker = *out.add_makers();
  maker.set_kind(v1::Maker::NOT_KNOWN);
  maker.set_note("run g does not record the order");
  *maker.mutable_row() = row;
  return out;
}

TEST(MakerTextTest, WithoutAnOrderTheFirstIsOneOfSeveral) {
  const auto findings = FindingTexts(Unordered(3));
  ASSERT_EQ(findings.size(), 2);
  EXPECT_EQ(findings[0].label, "first divergence");
  EXPECT_THAT(findings[0].text,
              StartsWith("among 3 failing tensors of token 0"));
  EXPECT_THAT(findings[0].text, HasSubstr("layers.2 output/0"));
  EXPECT_EQ(findings[1].label, "cause");
  EXPECT_EQ(findings[1].text, "not known: run g does not record the order");
  EXPECT_THAT(FindingTexts(Unordered(9))[0].text,
              StartsWith("among at least 9 failing tensors"));
}

TEST(MakerTextTest, OneFailingTensorIsTheFirstInAnyOrder) {
  EXPECT_THAT(FindingTexts(Unordered(1))[0].text,
              StartsWith("layers.2 output/0"));
}

TEST(MakerTextTest, ACauseThatIsNotKnownForOtherReasonsHasAnOp) {
  v1::Comparison comparison = Unordered(1);
  comparison.mutable_makers(0)->set_op("layers.2");
  EXPECT_TRUE(HasOrder(comparison));
  EXPECT_THAT(FindingTexts(comparison)[1].text,
              StartsWith("not known: layers.2 output/0"));
  EXPECT_THAT(FindingTexts(comparison)[1].text, Not(HasSubstr("error")));
}

// Covers all words in the texts, which people and scripts read.
v1::Maker MakerOf(v1::Maker::Kind kind) {
  v1::Maker out;
  out.set_kind(kind);
  out.set_op("a");
  *out.mutable_row() = Row();
  out.mutable_row()->set_row(7);
  out.mutable_row()->set_reason("nl2 = 0.25, needs <= 1e-4");
  out.set_input_error(0.0002);
  out.set_output_error(0.25);
  return out;
}

std::string TextOf(v1::Maker::Kind kind, bool may_diverge_before = false) {
  return MakerText(MakerOf(kind), may_diverge_before);
}

TEST(MakerTextTest, EveryKindHasItsWords) {
  const std::string row =
      "a output/0, rank 0, token 0, row 7: nl2 = 0.25, needs <= 1e-4";
  const std::string errors = "; input error 0.0002, output error 0.25";
  EXPECT_EQ(TextOf(v1::Maker::OP), row + errors);
  EXPECT_EQ(TextOf(v1::Maker::WEIGHT), row + errors);
  EXPECT_EQ(TextOf(v1::Maker::OWN_CODE), "own code of a; " + row + errors);
  EXPECT_EQ(TextOf(v1::Maker::MODEL_INPUTS),
            "inputs of the model: " + row + errors);
  EXPECT_EQ(TextOf(v1::Maker::MODEL_INPUTS, true),
            "inputs of rank 0: " + row + errors);
  EXPECT_EQ(TextOf(v1::Maker::DRIFT),
            "accumulated drift, no single op: " + row + errors);
  EXPECT_EQ(TextOf(v1::Maker::NOT_KNOWN), "not known: " + row + errors);
  EXPECT_EQ(TextOf(v1::Maker::FLIP),
            "choices within the noise of their scores, no fault: " + row);
  EXPECT_EQ(TextOf(v1::Maker::COPIES), "copies that differ: " + row);
}

TEST(MakerTextTest, CopiesNameTheRanksThatAreNotLikeTheOthers) {
  v1::Maker maker = MakerOf(v1::Maker::COPIES);
  maker.mutable_row()->clear_reason();
  maker.add_ranks(3);
  EXPECT_EQ(MakerText(maker, false),
            "the copy of rank 3: a output/0, rank 0, token 0, row 7");
  maker.add_ranks(4);
  EXPECT_EQ(MakerText(maker, false),
            "the copies of ranks 3-4: a output/0, rank 0, token 0, row 7");
}

TEST(MakerTextTest, NoteAndOtherRanksComeLast) {
  v1::Maker maker = MakerOf(v1::Maker::OP);
  maker.mutable_row()->clear_reason();
  maker.mutable_row()->set_call(2);
  maker.set_note("its weights differ");
  maker.add_ranks(1);
  EXPECT_EQ(MakerText(maker, false),
            "a output/0, call 2, rank 0, token 0, row 7; input error 0.0002, "
            "output error 0.25; its weights differ (same on rank 1)");
  maker.add_ranks(2);
  EXPECT_THAT(MakerText(maker, false), EndsWith(" (same on ranks 1,2)"));
}

TEST(MakerTextTest, EveryFindingHasItsWords) {
  v1::Comparison comparison;
  v1::ComparisonRow row = Row();
  row.set_row(3);
  row.set_reason("nl2 = 1");
  const std::string text = "a output/0, rank 0, token 0, row 3: nl2 = 1";
  *comparison.mutable_first_divergence() = row;
  *comparison.add_concurrent_divergences() = row;
  *comparison.mutable_first_inequality() = row;
  comparison.mutable_first_inequality()->add_metrics()->set_metric("nl2");
  comparison.mutable_first_inequality()->mutable_metrics(0)->set_value(0.5);
  *comparison.mutable_first_unmatched() = row;
  *comparison.add_makers() = MakerOf(v1::Maker::OP);
  *comparison.add_makers() = MakerOf(v1::Maker::DRIFT);
  comparison.set_more_makers_count(12);
  *comparison.mutable_first_skipped() = row;
  *comparison.mutable_first_non_finite() = row;
  comparison.set_both_non_finite_count(2);
  *comparison.mutable_first_both_non_finite() = row;
  std::vector<std::string> lines;
  for (const Finding& finding : FindingTexts(comparison)) {
    lines.push_back(std::string(finding.label) + "|" + finding.text);
  }
  EXPECT_THAT(
      lines,
      ElementsAre("first divergence|" + text, "concurrent|" + text,
                  "equal up to|a output/0, rank 0, token 0, row 3: nl2 = 0.5",
                  "first unmatched|" + text, "cause|" + TextOf(v1::Maker::OP),
                  "further cause|" + TextOf(v1::Maker::DRIFT),
                  "further cause|12 more that are independent of these",
                  "first skipped|" + text, "first NaN or Inf|" + text,
                  "NaN/Inf in both|2 rows, first " + text));
}

TEST(MakerTextTest, OtherInputsOfTheModelHaveTheirWords) {
  v1::InputDifference difference;
  *difference.mutable_row() = Row();
  difference.set_difference("target 403, golden 186; 1 of 8 differ");
  EXPECT_EQ(
      InputDifferenceText(difference),
      "inputs of the model differ from token 0: target 403, golden 186; "
      "1 of 8 differ; later tokens differ as a result (a output/0, rank 0, "
      "token 0, row 0)");
}

TEST(MakerTextTest, ExplanationsFollowTheirCause) {
  v1::Comparison comparison;
  v1::Maker& maker = *comparison.add_makers();
  maker.set_kind(v1::Maker::OP);
  maker.set_op("a");
  maker.mutable_row()->set_row(7);
  v1::Explanation& explanation = *maker.add_explanations();
  explanation.set_text("golden * 0.5\n");
  explanation.set_residual(2e-7);
  explanation.set_residual_without(0.5);
  comparison.add_makers()->set_kind(v1::Maker::OP);
  const std::vector<Finding> findings = FindingTexts(comparison);
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_EQ(findings[1].label, "cause");
  EXPECT_EQ(findings[2].label, "explanation");
  EXPECT_EQ(findings[2].row, 7);
  EXPECT_EQ(findings[2].text,
            R"(golden * 0.5\n (residual 2e-07, 0.5 without))");
  EXPECT_EQ(findings[3].label, "further cause");
  explanation.set_text("golden * 0.5");
  explanation.set_where("index 3 of dimension 1");
  explanation.set_residual_without(std::numeric_limits<double>::infinity());
  EXPECT_EQ(ExplanationText(explanation),
            "index 3 of dimension 1: golden * 0.5 (residual 2e-07)");
}

TEST(MakerTextTest, CountsHaveTheirWords) {
  v1::Comparison comparison;
  comparison.set_pass_count(5);
  comparison.set_fail_count(4);
  comparison.set_unmatched_count(3);
  comparison.set_skipped_count(2);
  EXPECT_EQ(RowCountsText(comparison),
            "5 pass, 4 fail, 3 unmatched, 2 skipped");
  comparison.set_allowed_unmatched_count(1);
  comparison.set_statistics_count(4);
  comparison.set_statistics_in_part_count(2);
  comparison.set_flipped_count(6);
  comparison.set_explained_count(7);
  EXPECT_EQ(RowCountsText(comparison),
            "5 pass, 4 fail, 3 unmatched, 2 skipped (1 unmatched and allowed); "
            "4 by statistics only, 2 of them in part; 6 with choices that "
            "differ within the noise; 7 beyond their bounds, explained by "
            "rounding errors");
  comparison.set_golden_left_out_count(1);
  EXPECT_EQ(LeftOutText(comparison),
            "1 golden and 0 target values (use --kind all)");
  comparison.set_target_run("r");
  comparison.set_target_not_recorded_count(2);
  EXPECT_EQ(NotRecordedText(comparison),
            "0 golden and 2 target tensors (see msitctl capture coverage r)");
}

}  // namespace
}  // namespace msitd::ask
