// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/name_pattern.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "protos/status/status.h"
#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Matched(std::string_view pattern, std::string_view path) {
  const auto parsed = NamePattern::Parse(pattern);
  if (!parsed.ok()) return std::string(Message(parsed.status()));
  const auto place = parsed->Match(path);
  if (!place.has_value()) return "no";
  return fmt::format("{} {} {} {} {} {}", place->rank.value_or(-1),
                     place->token.value_or(-1), place->call.value_or(-1),
                     IoName(place->io), place->op, place->index);
}

TEST(NamePatternTest, FieldsAreThoseOfTheName) {
  EXPECT_EQ(Matched("rank{rank}_step{token}_{op}", "rank3_step12_layers.0.mlp"),
            "3 12 -1 unspecified layers.0.mlp ");
  EXPECT_EQ(Matched("{op}_{io}.{index}_{call}", "a_b_output.1.0_7"),
            "-1 -1 7 output a_b 1.0");
  EXPECT_EQ(Matched("{op}_{io}", "a_grad_output"), "-1 -1 -1 grad_output a ");
  EXPECT_EQ(Matched("{op}_{io}.{index}", "a_grad_input_output.0"),
            "-1 -1 -1 output a_grad_input 0");
  EXPECT_EQ(Matched("{op}-it{token}", "x-it1-it2"),
            "-1 2 -1 unspecified x-it1 ");
  EXPECT_EQ(Matched("{token}{op}", "123"), "-1 12 -1 unspecified 3 ");
}

TEST(NamePatternTest, OthersDoNotMatch) {
  constexpr char kPattern[] = "rank{rank}_{op}";
  for (const char* name :
       {"", "rank_x", "rank1_", "xrank1_x", "rank-1_x", "rank1x", "RANK1_x",
        // Numbers beyond those of a run.
        "rank99999999_x", "rank99999999999999999999_x"}) {
    EXPECT_EQ(Matched(kPattern, name), "no") << name;
  }
  EXPECT_EQ(Matched("{op}.{io}", "x.sideways"), "no");
  EXPECT_EQ(Matched("{op}.{io}", "x.unspecified"), "no");
}

TEST(NamePatternTest, SlashesSelectFolders) {
  EXPECT_EQ(Matched("{op}", "a/b/c"), "-1 -1 -1 unspecified c ");
  EXPECT_EQ(Matched("s{token}/{op}", "r0/s2/c"), "-1 2 -1 unspecified c ");
  EXPECT_EQ(Matched("r{rank}/s{token}/{op}", "x/r0/s2/c"),
            "0 2 -1 unspecified c ");
  EXPECT_EQ(Matched("r{rank}/s{token}/{op}", "s2/c"), "no");
}

TEST(NamePatternTest, WrongPatternsHaveAReason) {
  EXPECT_THAT(Matched("{step}", ""), HasSubstr("{step} is not a field"));
  EXPECT_THAT(Matched("{}", ""), HasSubstr("{} is not a field"));
  EXPECT_THAT(Matched("{op", ""), HasSubstr("brace"));
  EXPECT_THAT(Matched("op}", ""), HasSubstr("brace"));
  EXPECT_THAT(Matched("{op}{op}", ""), HasSubstr("{op} occurs twice"));
  EXPECT_THAT(Matched("x", ""), HasSubstr("none of the fields"));
  EXPECT_THAT(Matched("{op}{index}", ""), HasSubstr("requires {io}"));
  EXPECT_THAT(Matched("{io}", ""), HasSubstr("requires {op}"));
  EXPECT_THAT(Matched(std::string(2000, 'x') + "{op}", ""),
              HasSubstr("2004 bytes"));
}

// Each text field could end at any place.
TEST(NamePatternTest, TimeIsBounded) {
  std::string pattern = "{op}";
  for (int i = 0; i < 100; ++i) pattern += "aa";
  pattern += "{io}b{index}";
  EXPECT_EQ(Matched(pattern, std::string(4000, 'a')), "no");
}

TEST(NamePatternTest, ATreeHasThePlacesOfItsNames) {
  const MadeTree made;
  for (const char* file : {"r1_s2_b.c.npy", "r0_s3_a.npy", "r0_s2_a.npy",
                           "readme.npy", "x/r0_s2_b.npy"}) {
    made.Write(file);
  }
  TreeOptions options;
  options.name_pattern = *NamePattern::Parse("r{rank}_s{token}_{op}");
  const auto tree = made.Open("", options);
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(tree->ranks(), ElementsAre(0, 1));
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 2 a#0", "0 - 2 b#0",
                                              "0 - 3 a#0", "1 - 2 b.c#0"));
  const auto problems = tree->TakeProblems();
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].file, made.path("readme.npy"));
  EXPECT_THAT(std::string(Message(problems[0].reason)),
              HasSubstr("does not match the pattern"));
}

TEST(NamePatternTest, TwoFilesWithOnePlaceAreRefused) {
  const MadeTree made;
  made.Write("x/s2_a.npy");
  made.Write("y/s02_a.npy");
  TreeOptions options;
  options.name_pattern = *NamePattern::Parse("s{token}_{op}");
  const auto tree = OpenTree(made.path(""), options);
  ASSERT_FALSE(tree.ok());
  const std::string reason(Message(tree.status()));
  EXPECT_THAT(reason, HasSubstr(made.path("x/s2_a.npy")));
  EXPECT_THAT(reason, HasSubstr(made.path("y/s02_a.npy")));
  EXPECT_THAT(reason, HasSubstr("token 2, op \"a\""));
  options.name_pattern = *NamePattern::Parse("s{token}_{op}");
  options.kind = TreeKind::kGe;
  EXPECT_FALSE(OpenTree(made.path(""), options).ok());
}

TEST(NamePatternTest, AFolderThatGrowsKeepsTheFirstOfTwoFiles) {
  const MadeTree made;
  made.Write("x/s2_a.npy");
  made.Write("y/s02_a.npy");
  made.Write("z/s002_a.npy");
  made.Write("z/s3_a.npy");
  TreeOptions options;
  options.name_pattern = *NamePattern::Parse("s{token}_{op}");
  options.keeps_first_place = true;
  const auto tree = made.Open("", options);
  ASSERT_NE(tree, nullptr);
  EXPECT_THAT(DescribeAll(*tree), ElementsAre("0 - 2 a#0", "0 - 3 a#0"));
  const auto problems = tree->TakeProblems();
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].file, made.path("y/s02_a.npy"));
  EXPECT_EQ(problems[1].file, made.path("z/s002_a.npy"));
}

}  // namespace
}  // namespace msitd::trees
