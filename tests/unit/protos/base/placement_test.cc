// SPDX-License-Identifier: Apache-2.0
#include "protos/base/placement.h"

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "protos/base/limits.h"
#include "tests/support/placement_text.h"

namespace msitd {
namespace {

using Kind = Placement::Kind;

TEST(PlacementTest, HasThePublishedForm) {
  const Placement placement{
      .first = 0,
      .dims = {
          {.size = 2, .stride = 4, .reduction = {}},
          {.size = 4, .stride = 1, .kind = Kind::kSharded, .reduction = {}}}};
  EXPECT_EQ(FormatPlacement(placement), "0+2x4/4x1:R,S(0)");
  EXPECT_EQ(ParsePlacement("0+2x4/4x1:R,S(0)"), placement);
  const std::optional<Placement> partial = ParsePlacement("3+2/1:P(sum)");
  ASSERT_TRUE(partial.has_value());
  EXPECT_EQ(partial->first, 3);
  EXPECT_EQ(partial->dims[0].kind, Kind::kPartial);
  EXPECT_EQ(partial->dims[0].reduction, "sum");
}

TEST(PlacementTest, TakesAllThatIsInsideTheLimits) {
  for (const std::string text :
       {"0+1/1:R", "0+1/1048575:S(31)", "1048575+1/1:R",
        "0+1048576/1:P(premul_sum)", "0+2x2/1x2:S(0),S(0)",
        "7+2x1x3/6x1x2:R,P(max),S(1)",
        "0+2x2x2x2x2x2x2x2/128x64x32x16x8x4x2x1:R,R,R,R,R,R,R,R"}) {
    const std::optional<Placement> placement = ParsePlacement(text);
    ASSERT_TRUE(placement.has_value()) << text;
    EXPECT_EQ(FormatPlacement(*placement), text);
  }
}

TEST(PlacementTest, RefusesWhatIsNoPlacement) {
  for (const std::string text : {"",
                                 ":",
                                 "+/:",
                                 "0",
                                 "0+2",
                                 "0+2/1",
                                 "0+2/1:",
                                 "0+2/1:R,",
                                 "0+2/1:,R",
                                 "0+2/1:R,R",
                                 "0+2x2/1:R,R",
                                 "0+2/1x2:R,R",
                                 "0+2x2/2x1:R",
                                 "+2/1:R",
                                 "0+/1:R",
                                 "0+2/:R",
                                 "-1+2/1:R",
                                 "0+-2/1:R",
                                 "0+2/-1:R",
                                 "00+2/1:R",
                                 "0+02/1:R",
                                 "0+2/01:R",
                                 " 0+2/1:R",
                                 "0+2/1:R ",
                                 "0+2/1:r",
                                 "0+2/1:S",
                                 "0+2/1:S()",
                                 "0+2/1:S(-1)",
                                 "0+2/1:S(00)",
                                 "0+2/1:S(0",
                                 "0+2/1:S0)",
                                 "0+2/1:S(32)",
                                 "0+2/1:P()",
                                 "0+2/1:P(Sum)",
                                 "0+2/1:P(a b)",
                                 "0+2/1:P(seventeen_letters)",
                                 "0+2/1:Q(sum)",
                                 "0+2/1:(0)",
                                 "0+0/1:R",
                                 "0+2/0:R",
                                 "0+2x/1x:R,R",
                                 "0+2/1:R:R",
                                 "0+2/1/1:R",
                                 "0+0+2/1:R"}) {
    EXPECT_FALSE(ParsePlacement(text).has_value()) << text;
  }
  EXPECT_FALSE(ParsePlacement(std::string("0+2/1:R\0", 8)).has_value());
}

TEST(PlacementTest, RefusesWhatIsOverALimit) {
  for (const std::string text :
       {"1048576+1/1:R", "0+1048577/1:R", "0+2/1048576:R", "1+1048576/1:R",
        "99999999999+1/1:R", "0+99999999999/1:R", "0+2/99999999999:R",
        "0+1048576x1048576/1x1048575:R,R",
        "0+2x2x2x2x2x2x2x2x2/256x128x64x32x16x8x4x2x1:R,R,R,R,R,R,R,R,R"}) {
    EXPECT_FALSE(ParsePlacement(text).has_value()) << text;
  }
  const std::string filler(kPlacementBytesMax, '0');
  EXPECT_FALSE(ParsePlacement("0+2/1:S(" + filler + ")").has_value());
}

TEST(PlacementTest, RefusesRanksThatAreThereTwice) {
  for (const std::string text : {"0+2x2/1x1:R,R", "0+2x3/2x1:R,R",
                                 "0+4x2/1x2:R,R", "0+2x2x2/4x2x2:R,R,R"}) {
    EXPECT_FALSE(ParsePlacement(text).has_value()) << text;
  }
  EXPECT_TRUE(ParsePlacement("0+2x2/2x3:R,R").has_value());
  // With a single rank, any stride is valid.
  EXPECT_TRUE(ParsePlacement("0+1x2/1x1:R,R").has_value());
}

TEST(PlacementTest, WhateverIsTakenHasOneText) {
  constexpr std::string_view kAlphabet = "0123459+x/:,RSP()sum_-";
  std::mt19937 random(5);
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = i % 2 == 0 ? "0+2x4/4x1:R,S(0)" : "8+2/1:P(sum)";
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      const char c = kAlphabet[random() % kAlphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1);
          break;
      }
    }
    const std::optional<Placement> placement = ParsePlacement(text);
    if (!placement.has_value()) continue;
    ++taken;
    ASSERT_EQ(FormatPlacement(*placement), text);
    int64_t last = placement->first;
    for (const Placement::MeshDim& dim : placement->dims) {
      last += int64_t{dim.size - 1} * (dim.size > 1 ? dim.stride : 0);
    }
    ASSERT_LE(last, kRankMax) << text;
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace msitd
