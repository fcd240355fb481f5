// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/matching_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/msitctl/compare/layout_hints.h"
#include "client/msitctl/flag/layout_flags.h"
#include "client/msitctl/flag/view_flags.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

std::vector<std::pair<std::string, std::string>> Pairs(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto mapping = ParseOpMap(text);
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  if (!mapping.ok()) return out;
  for (const v1::Matching::OpPair& pair : mapping->ops()) {
    out.emplace_back(pair.golden_op(), pair.target_op());
  }
  return out;
}

std::string ErrorOf(std::string_view text) {
  return std::string(Message(ParseOpMap(text).status()));
}

TEST(MatchingFlagsTest, MappingsAreJsonOrYaml) {
  EXPECT_THAT(Pairs(R"({"b": "x", "a": "y"})"),
              ElementsAre(Pair("a", "y"), Pair("b", "x")));
  EXPECT_THAT(
      Pairs("---\n# comment\naten::mm: ge.MatMul # more\n"
            "\"a: b\": 'c # d'\n\n"),
      ElementsAre(Pair("aten::mm", "ge.MatMul"), Pair("a: b", "c # d")));
}

TEST(MatchingFlagsTest, DuplicatesAreRefused) {
  EXPECT_THAT(ErrorOf("a: b\nc: d\na: e\n"), HasSubstr("line 3: \"a\""));
  EXPECT_FALSE(ParseOpMap(R"({"a": "b", "a": "c"})").ok());
}

TEST(MatchingFlagsTest, WhatIsNoMappingIsRefused) {
  for (const char* text : {"a", "a:", ": b", "'a: b", "{\"a\": 1}", "{",
                           "\"a\" b: c", "a: 'b' c"}) {
    EXPECT_FALSE(ParseOpMap(text).ok()) << text;
  }
}

TEST(MatchingFlagsTest, RewritesAndRanksAreCutInTwo) {
  EXPECT_EQ(ParseRewrite("a=>b=>c")->regex(), "a");
  EXPECT_EQ(ParseRewrite("a=>b=>c")->replacement(), "b=>c");
  EXPECT_EQ(ParseRewrite("a=>")->replacement(), "");
  EXPECT_FALSE(ParseRewrite("a->b").ok());
  EXPECT_EQ(ParseRankPair("3=14")->target_rank(), 14);
  for (const char* text : {"", "1", "1=", "=1", "1=2=3", "a=b"}) {
    EXPECT_FALSE(ParseRankPair(text).ok()) << text;
  }
}

TEST(MatchingFlagsTest, LayoutsAreCutAtTheLastEqualsSign) {
  const auto layout = ParseLayout("a=b@x.*@grad_input/1.0=concat(-2)/4");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->op_pattern(), "a=b@x.*");
  EXPECT_EQ(layout->io(), v1::IO_GRAD_INPUT);
  EXPECT_EQ(layout->index(), "1.0");
  EXPECT_EQ(layout->kind(), v1::Layout::CONCAT);
  EXPECT_EQ(layout->dim(), -2);
  EXPECT_EQ(layout->group_size(), 4);
  EXPECT_EQ(ParseLayout("a@output=sum")->kind(), v1::Layout::SUM);
  EXPECT_FALSE(ParseLayout("a@output=sum")->has_index());
  EXPECT_EQ(ParseLayout("a@b=replicated")->op_pattern(), "a@b");
  EXPECT_EQ(ParseLayout("*=pick(3)")->rank(), 3);
  EXPECT_EQ(ParseLayout("*=zigzag(1)/2")->kind(), v1::Layout::ZIGZAG);
  EXPECT_EQ(ParseLayout("*=fit/2")->kind(), v1::Layout::FIT);
  EXPECT_THAT(ParseLayout("*=concat(-1,32:8:8)")->sections(),
              ElementsAre(32, 8, 8));
  EXPECT_THAT(ParseLayout("*=concat(-1,2)")->sections(), ElementsAre(2));
  const auto unless = ParseLayout("*=replicated/2 unless placed");
  ASSERT_TRUE(unless.ok());
  EXPECT_TRUE(unless->unless_placed());
  EXPECT_EQ(unless->kind(), v1::Layout::REPLICATED);
  EXPECT_EQ(unless->group_size(), 2);
  EXPECT_FALSE(ParseLayout("*=replicated")->unless_placed());
  for (const char* text : {"",
                           "a",
                           "=sum",
                           "a=",
                           "a=sun",
                           "a=concat",
                           "a=concat()",
                           "a=concat(x)",
                           "a=concat(1",
                           "a=pick(1)/0",
                           "a=sum/",
                           "a=sum/x",
                           "@output=sum",
                           "a=sum(1)",
                           "a=concat(99999999999)",
                           "a=concat(0,)",
                           "a=concat(0,1:)",
                           "a=concat(0,:1)",
                           "a=concat(,1)",
                           "a=zigzag(0,1)",
                           "a=pick(0,1)",
                           "a=sum unless",
                           "a= unless placed"}) {
    EXPECT_FALSE(ParseLayout(text).ok()) << text;
  }
}

TEST(MatchingFlagsTest, ViewsAreCutAtTheLastEqualsSign) {
  const auto view =
      ParseViewRule("a=*.qkv@output/0=split(-1,32:8:8,0) as *.q_proj");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->op_pattern(), "a=*.qkv");
  EXPECT_EQ(view->io(), v1::IO_OUTPUT);
  EXPECT_EQ(view->index(), "0");
  EXPECT_EQ(view->view(), "split(-1,32:8:8,0)");
  EXPECT_EQ(view->as_op(), "*.q_proj");
  EXPECT_EQ(ParseViewRule("*=flatten")->as_op(), "");
  EXPECT_FALSE(ParseViewRule("*@input=flatten")->has_index());
  for (const char* text : {"", "a", "=flatten", "a=", "@output=flatten",
                           "a=flatten as ", "a= as b"}) {
    EXPECT_FALSE(ParseViewRule(text).ok()) << text;
  }
}

TEST(MatchingFlagsTest, HintsBecomeFewFlags) {
  EXPECT_THAT(LayoutFlagsOf({"--target-layout 'l.0.q@output/0=concat(-1)'",
                             "--target-layout 'l.11.q@output/0=concat(-1)'",
                             "--target-layout 'l.0.k@output/0=concat(-1)'",
                             "--target-layout 'l.1.k@output/0=concat(0)'",
                             "--target-layout 'l.0.q@input/0=concat(0)'"}),
              ElementsAre("--target-layout 'l.*.q@output/0=concat(-1)'",
                          "--target-layout 'l.0.k@output/0=concat(-1)'",
                          "--target-layout 'l.1.k@output/0=concat(0)'",
                          "--target-layout 'l.*.q@input/0=concat(0)'",
                          "--target-layout '*=replicated unless placed'"));
  EXPECT_THAT(LayoutFlagsOf({"--golden-layout '0@output/0=concat(0)/2'"}),
              ElementsAre("--golden-layout '0@output/0=concat(0)/2'",
                          "--golden-layout '*=replicated unless placed'"));
  EXPECT_TRUE(LayoutFlagsOf({}).empty());
}

TEST(MatchingFlagsTest, HintsSayWhatIsNoLongerChecked) {
  const std::string concat = "--target-layout 'q@output/0=concat(-1)'";
  const std::string sum = "--target-layout 'o@output/0=sum'";
  EXPECT_THAT(LayoutEffectText({concat}), HasSubstr("concat compares"));
  EXPECT_THAT(LayoutEffectText({concat}), Not(HasSubstr("does not check")));
  EXPECT_THAT(LayoutEffectText({sum}),
              AllOf(HasSubstr("sum compares the sum over the ranks, and does "
                              "not check that the ranks agree"),
                    Not(HasSubstr("concat"))));
  EXPECT_THAT(LayoutEffectText({concat, sum}),
              AllOf(HasSubstr("concat compares"), HasSubstr("sum compares")));
}

TEST(MatchingFlagsTest, MappingsAreOfEitherRun) {
  using Mapping = v1::Matching::Mapping;
  const auto parsed = [](std::string_view text) {
    const auto mapping = ParseMappingName(text);
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    return mapping.ok() ? std::pair(mapping->side(), mapping->attachment())
                        : std::pair(Mapping::SIDE_UNSPECIFIED, std::string());
  };
  EXPECT_THAT(parsed("m"), Pair(Mapping::TARGET, "m"));
  EXPECT_THAT(parsed("target:golden:m"), Pair(Mapping::TARGET, "golden:m"));
  EXPECT_THAT(parsed("golden:m"), Pair(Mapping::GOLDEN, "m"));
  for (const std::string_view text : {"", "golden:", "target:"}) {
    EXPECT_FALSE(ParseMappingName(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msitd::msitctl
