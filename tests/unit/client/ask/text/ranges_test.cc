// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(std::string_view text) {
  const auto ranges = ParseRanges(text, 100);
  return ranges.ok() ? "" : std::string(Message(ranges.status()));
}

TEST(RangesTest, NumbersAndRangesMix) {
  EXPECT_THAT(*ParseRanges("0-3,10", 100),
              ElementsAre(Range{0, 3}, Range{10, 10}));
  EXPECT_THAT(*ParseRanges(" 1 , 2 - 100 ", 100),
              ElementsAre(Range{1, 1}, Range{2, 100}));
}

TEST(RangesTest, AWrongPartIsShown) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("a number is missing"));
  EXPECT_THAT(ErrorOf("1,"), HasSubstr("a number is missing"));
  EXPECT_THAT(ErrorOf("1,x"), HasSubstr("\"x\" is not a number"));
  EXPECT_THAT(ErrorOf("-1"), HasSubstr("\"-1\" is not a number"));
  EXPECT_THAT(ErrorOf("1-"), HasSubstr("\"1-\" is not a number"));
  EXPECT_THAT(ErrorOf("1-2-3"), HasSubstr("\"1-2-3\" is not a number"));
  EXPECT_THAT(ErrorOf("5-4"), HasSubstr("the end is before the beginning"));
  EXPECT_THAT(ErrorOf("101"), HasSubstr("\"101\": the maximum is 100"));
  EXPECT_THAT(ErrorOf("99999999999999999999"), HasSubstr("the maximum is 100"));
}

TEST(RangesTest, RanksAreSortedAndUnique) {
  EXPECT_THAT(*ParseRanks("2-3,0,3"), ElementsAre(0, 2, 3));
}

TEST(RangesTest, AHugeRangeOfRanksIsRefusedNotBuilt) {
  EXPECT_THAT(std::string(Message(ParseRanks("0-1000000").status())),
              HasSubstr("more than 4096 ranks"));
}

TEST(RangesTest, ListsComeFromCommasAndRepetition) {
  EXPECT_THAT(SplitLists({"a,b", " c ", ",", "d e"}),
              ElementsAre("a", "b", "c", "d e"));
  EXPECT_THAT(SplitLists({}), IsEmpty());
}

}  // namespace
}  // namespace msitd::ask
