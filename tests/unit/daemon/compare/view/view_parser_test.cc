// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/view_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Kind = ViewStep::Kind;

TEST(ViewParserTest, StepsAreJoinedByDots) {
  const auto steps =
      ParseView("reshape(6,2,-1).permute(1,0,2).flatten.flatten(1,-1)");
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_THAT(*steps, SizeIs(4));
  EXPECT_EQ((*steps)[0].kind, Kind::kReshape);
  EXPECT_THAT((*steps)[0].numbers, ElementsAre(6, 2, -1));
  EXPECT_EQ((*steps)[0].text, "reshape(6,2,-1)");
  EXPECT_EQ((*steps)[1].kind, Kind::kPermute);
  EXPECT_THAT((*steps)[2].numbers, ElementsAre(0, -1));
  EXPECT_THAT((*steps)[3].numbers, ElementsAre(1, -1));
}

TEST(ViewParserTest, RangesMayLackTheirEnds) {
  const auto steps = ParseView("slice(-1,2:).slice(0,:-1).slice(0,:)");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ((*steps)[0].dim, -1);
  EXPECT_THAT((*steps)[0].ranges, ElementsAre(ViewRange{2, std::nullopt}));
  EXPECT_THAT((*steps)[1].ranges, ElementsAre(ViewRange{std::nullopt, -1}));
  EXPECT_THAT((*steps)[2].ranges, ElementsAre(ViewRange{}));
  const auto rows = ParseView("rows(4:8,-1,0,-3)");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT((*rows)[0].ranges,
              ElementsAre(ViewRange{4, 8}, ViewRange{-1, std::nullopt},
                          ViewRange{0, 1}, ViewRange{-3, -2}));
}

TEST(ViewParserTest, PartsMayBeOfGroups) {
  const auto steps = ParseView("split(-1,32:8:8,2).split(0,4:1:1,0,8)");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_THAT((*steps)[0].numbers, ElementsAre(32, 8, 8));
  EXPECT_EQ((*steps)[0].part, 2);
  EXPECT_EQ((*steps)[0].groups, 1);
  EXPECT_EQ((*steps)[1].groups, 8);
}

TEST(ViewParserTest, LeavesNameTensors) {
  const auto steps = ParseView(
      R"(concat(-1,*.k_proj,@output/1).sum(a.b@input/x,"f(a,b)@output/1.0"))");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_THAT((*steps)[0].leaves, ElementsAre(LeafName{"*.k_proj"},
                                              LeafName{"", Io::kOutput, "1"}));
  EXPECT_THAT((*steps)[1].leaves,
              ElementsAre(LeafName{"a.b", Io::kInput, "x"},
                          LeafName{"f(a,b)", Io::kOutput, "1.0"}));
}

TEST(ViewParserTest, ScalesMayHaveZeroPointsAndBlocks) {
  const auto steps = ParseView(
      "dequantize(s).dequantize(s,128:128).dequantize(s,z).dequantize(s,z,1:"
      "0)");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_THAT((*steps)[0].leaves, SizeIs(1));
  EXPECT_THAT((*steps)[1].numbers, ElementsAre(128, 128));
  EXPECT_THAT((*steps)[2].leaves, SizeIs(2));
  EXPECT_THAT((*steps)[2].numbers, SizeIs(0));
  EXPECT_THAT((*steps)[3].numbers, ElementsAre(1, 0));
}

TEST(ViewParserTest, ErrorsHaveAPosition) {
  const auto error = [](std::string_view text) {
    const auto steps = ParseView(text);
    EXPECT_FALSE(steps.ok()) << text;
    EXPECT_EQ(steps.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(Message(steps.status()));
  };
  EXPECT_EQ(error("permute(a)"), "at 9 of \"permute(a)\": needs a number");
  EXPECT_THAT(error("flatten.twist(1)"), HasSubstr("at 9 of"));
  EXPECT_THAT(error("permute(1,0"), HasSubstr("needs `)`"));
  EXPECT_THAT(error("permute(1,0)x"), HasSubstr("needs `.` or the end"));
  EXPECT_THAT(error("split(0,1:0,0)"), HasSubstr("must be positive"));
  EXPECT_THAT(error("split(0,1:1,2)"), HasSubstr("not one of the 2 parts"));
  EXPECT_THAT(error("split(0,1:1,0,0)"), HasSubstr("groups"));
  EXPECT_THAT(error("concat(0)"), HasSubstr("needs `,`"));
  EXPECT_THAT(error("concat(0,)"), HasSubstr("name of a tensor"));
  EXPECT_THAT(error("sum(@x/0)"), HasSubstr("IO/INDEX"));
  EXPECT_THAT(error("sum(@output)"), HasSubstr("IO/INDEX"));
  EXPECT_THAT(error("sum(\"a)"), HasSubstr("needs `\"`"));
  EXPECT_THAT(error("heads(0)"), HasSubstr("positive"));
  EXPECT_THAT(error("transpose(0)"), HasSubstr("two dimensions"));
  EXPECT_THAT(error("reshape(99999999999999999999)"), HasSubstr("at 9"));
  EXPECT_THAT(error("reshape(9999999999999999)"), HasSubstr("too large"));
  for (const char* text : {"",
                           ".",
                           "flatten.",
                           "slice(0,1)",
                           "slice(0)",
                           "rows()",
                           "permute",
                           "permute()",
                           "dequantize()",
                           "dequantize(s,z,q)",
                           "dequantize(s,1:)",
                           "permute(,)",
                           "rope_pairs",
                           "FLATTEN",
                           "flatten()()",
                           "any_order",
                           "any_order()",
                           "any_order(0,1)",
                           "any_order(0).flatten",
                           "any_order(0).any_order(0)"}) {
    error(text);
  }
}

TEST(ViewParserTest, LimitsHold) {
  std::string deep = "flatten";
  for (size_t i = 1; i < kViewStepsMax; ++i) deep += ".flatten";
  EXPECT_TRUE(ParseView(deep).ok());
  EXPECT_THAT(Message(ParseView(deep + ".flatten").status()),
              HasSubstr("more than 32 steps"));
  std::string wide = "sum(a";
  for (size_t i = 2; i < kViewLeavesMax; ++i) wide += ",a";
  EXPECT_TRUE(ParseView(wide + ")").ok());
  EXPECT_FALSE(ParseView(wide + ",a)").ok());
  EXPECT_FALSE(ParseView(std::string(kViewBytesMax + 1, 'a')).ok());
}

TEST(ViewParserTest, AnyBytesAreParsedOrRefused) {
  std::mt19937 random(7);
  const std::string_view bytes = "permutslicfah(),:.-019\"@/*\0\xff";
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? "slice(0,1:2)" : "split(-1,2:1,0)";
    for (int j = 0; j < 4; ++j) {
      text[random() % text.size()] = bytes[random() % bytes.size()];
    }
    (void)ParseView(text);
  }
}

}  // namespace
}  // namespace msitd::compare
