// SPDX-License-Identifier: Apache-2.0
#include "client/text/maker_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace msitd::ctl {
namespace {

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
  // One of several ranks is picked.
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
  EXPECT_EQ(findings[1].label, "made by");
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

}  // namespace
}  // namespace msitd::ctl
