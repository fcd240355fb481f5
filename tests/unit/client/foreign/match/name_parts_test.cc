// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/name_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace msitd::match {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool Nobody(std::string_view /*op*/) { return false; }

TEST(NamePartsTest, LongestNamesMakeUpTheWhole) {
  const NameParts parts({"Mul", "Mul_1", "Relu_2", "Add", "Add_1", "1Mul"});
  EXPECT_THAT(parts.Split("Mul_1"), ElementsAre("Mul_1"));
  EXPECT_THAT(parts.Split("Mul_1Relu_2"), ElementsAre("Mul_1", "Relu_2"));
  EXPECT_THAT(parts.Split("Mul_2"), IsEmpty());
  EXPECT_THAT(parts.Split("Mul_12"), IsEmpty());
  EXPECT_THAT(parts.Split(""), IsEmpty());
  EXPECT_THAT(NameParts({}).Split("Mul"), IsEmpty());
  EXPECT_EQ(parts.LongestPrefix("Mul_12"), 5u);
  EXPECT_EQ(parts.LongestPrefix("X"), 0u);
}

TEST(NamePartsTest, LongestNameGivesWayIfTheRestWouldBeNone) {
  const NameParts parts({"Add", "Add_1", "_1Mul"});
  EXPECT_THAT(parts.Split("Add_1Mul"), ElementsAre("Add", "_1Mul"));
  // msit takes the longest name, regardless of the rest.
  EXPECT_THAT(parts.SplitGreedily("Add_1Mul", Nobody), ElementsAre("Add_1"));
}

TEST(NamePartsTest, GreedySplitStopsWhereAnotherOpWasDumped) {
  const NameParts parts({"Add", "Mul"});
  EXPECT_THAT(parts.SplitGreedily("AddMul_7", Nobody),
              ElementsAre("Add", "Mul"));
  const auto is_dumped = [](std::string_view op) { return op == "Mul_"; };
  EXPECT_THAT(parts.SplitGreedily("AddMul_7", is_dumped), ElementsAre("Add"));
}

// Joined names are split into names that give the same text when they are
// joined again. If no name is a prefix of another one, the same names are
// found.
TEST(NamePartsTest, WhatIsPutTogetherComesApart) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> names;
    for (int i = 0; i < 6; ++i) {
      std::string name;
      for (size_t size = 1 + random() % 4; size > 0; --size) {
        name += "ab_1"[random() % 4];
      }
      names.push_back(std::move(name));
    }
    const NameParts parts({names.begin(), names.end()});
    const std::set<std::string> known(names.begin(), names.end());
    std::string text;
    for (size_t count = 1 + random() % 5; count > 0; --count) {
      text += names[random() % names.size()];
    }
    std::string joined;
    for (const std::string_view part : parts.Split(text)) {
      EXPECT_TRUE(known.contains(std::string(part)));
      joined += part;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(NamePartsTest, NamesThatBeginNoOtherComeApartAsTheyWere) {
  const NameParts parts({"Add_1", "Mul_2", "Sub_3"});
  const std::vector<std::string> all = {"Add_1", "Mul_2", "Sub_3"};
  for (int code = 0; code < 27; ++code) {
    const std::vector<std::string> names = {all[code % 3], all[code / 3 % 3],
                                            all[code / 9]};
    EXPECT_THAT(parts.Split(names[0] + names[1] + names[2]),
                ElementsAre(names[0], names[1], names[2]));
  }
}

}  // namespace
}  // namespace msitd::match
