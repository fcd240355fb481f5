// SPDX-License-Identifier: Apache-2.0
#include "client/match/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/match/match.h"
#include "protos/base/mapping_limits.h"
#include "protos/base/utf8.h"
#include "tests/unit/client/match/run_builder.h"

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MappingTest, OpsThatBelongTogetherAsAWholeHaveOneLine) {
  const RunFacts golden = RunBuilder("").Op("a", {1}, {1}).Build();
  const RunFacts target =
      RunBuilder("").Op("A", {1}, {1}).Op("B", {1}, {1}).Build();
  MappingBuilder builder(golden, target);
  EXPECT_TRUE(builder.Pair({0, 0}, {0, 0}, "why"));
  EXPECT_TRUE(builder.Pair({0, 1}, {0, 1}, "why"));
  EXPECT_FALSE(builder.Pair({0, 0}, {0, 1}, "again"));
  EXPECT_TRUE(builder.Pair({0, 1}, {1, 0}, "crossed"));
  const auto mapping = builder.Finish("g", "t");
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(mapping->pair_count, 3u);
  EXPECT_THAT(PairsOf(*mapping),
              ElementsAre("A=a", "B.input.0=a.output.0", "B.output.0="));
  EXPECT_THAT(LeftOf(*mapping), ElementsAre("target 1: t"));
}

TEST(MappingTest, WhatIsLeftHasTheFirstReason) {
  const RunFacts golden = RunBuilder("").Op("a", {1}, {1}).Build();
  const RunFacts target = RunBuilder("").Op("A", {1}, {1}).Build();
  MappingBuilder builder(golden, target);
  builder.LeaveGoldenOp(0, "fused", "into A");
  builder.LeaveGolden({0, 0}, "another");
  builder.PairWithAbsent({0, 0}, {.op = "b", .io = Io::kInput, .index = "0"},
                         "not there");
  builder.LeaveTarget({0, 0}, "no reason");
  const auto mapping = builder.Finish("g", "t");
  ASSERT_TRUE(mapping.ok());
  EXPECT_THAT(PairsOf(*mapping),
              ElementsAre("A.input.0=b.input.0", "A.output.0=", "=a"));
  EXPECT_EQ(mapping->lines[2].reason, "fused: into A");
  EXPECT_THAT(LeftOf(*mapping), ElementsAre("target 1: not there (lacks)",
                                            "target 1: t", "golden 2: fused"));
}

TEST(MappingTest, LinesFitWhateverTheReason) {
  Line line;
  line.target =
      Reference{.op = "a\"\n", .io = Io::kOutput, .index = "0", .call = 2};
  for (int i = 0; i < 200; ++i) line.reason += "\xc3\xa9";
  const std::string text = ToText(line);
  EXPECT_LE(text.size(), kMappingLineBytesMax);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_THAT(text, HasSubstr(R"("op":"a\"\n")"));
  EXPECT_THAT(text, HasSubstr(R"("call":2)"));
  EXPECT_THAT(text, Not(HasSubstr("golden")));
}

TEST(MappingTest, ReasonsMayHoldNamesThatNobodyHasChecked) {
  Line line;
  line.target = Reference{"a"};
  line.reason = "input of \xff in it";
  EXPECT_THAT(ToText(line), HasSubstr("input of ? in it"));
}

TEST(MatchTest, SourcesChooseTheMatcher) {
  EXPECT_EQ(ChooseMatcher("fx", "ge", false), Matcher::kGeFx);
  EXPECT_EQ(ChooseMatcher("ge", "fx", false), Matcher::kGeFx);
  EXPECT_EQ(ChooseMatcher("ge", "ge", false), Matcher::kGeGe);
  EXPECT_EQ(ChooseMatcher("ge", "ge", true), Matcher::kGeSelf);
  EXPECT_EQ(ChooseMatcher("msit", "mindie", false), Matcher::kMindie);
  EXPECT_EQ(ChooseMatcher("", "mindie", false), Matcher::kMindie);
  EXPECT_EQ(ChooseMatcher("msit", "atb", false), Matcher::kTorchAtb);
  EXPECT_EQ(ChooseMatcher("atb", "atb", false), Matcher::kTorchAtb);
  EXPECT_EQ(ChooseMatcher("", "", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("fx", "fx", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("msprobe", "msprobe", false), std::nullopt);
  EXPECT_EQ(ChooseMatcher("msit", "msit", true), std::nullopt);
}

TEST(MatchTest, NamesAreReadAsTheyAreWritten) {
  for (const Matcher matcher : AllMatchers()) {
    EXPECT_EQ(ParseMatcher(MatcherName(matcher)), matcher);
  }
  EXPECT_EQ(ParseMatcher("auto"), std::nullopt);
}

TEST(MatchTest, OnlyFilesOfMatchersAreWanted) {
  EXPECT_TRUE(IsWanted("dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"));
  EXPECT_FALSE(IsWanted("dynamo_optimized_graph_1_rank_0_pid_1_ts_2.txt"));
  EXPECT_TRUE(IsWanted("mindie_rt_op_mapping.json"));
  EXPECT_TRUE(IsWanted("mindie_torch_op_mapping.json"));
  EXPECT_TRUE(IsWanted("model/Llama.json"));
  EXPECT_TRUE(IsWanted("model_tree.json"));
  EXPECT_FALSE(IsWanted("module_tree.json"));
}

}  // namespace
}  // namespace msitd::match
