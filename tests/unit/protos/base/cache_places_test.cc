// SPDX-License-Identifier: Apache-2.0
#include "protos/base/cache_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace msitd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(CachePlacesTest, FormsAreParsed) {
  CachePlaces row;
  row.row = 1;
  row.outer_dim = 0;
  row.inner_dim = 2;
  row.ranges = {{4, 9}, {12, 13}};
  EXPECT_EQ(ParseCachePlaces("row 1 dims 0,2: 4:9,12"), row);
  EXPECT_EQ(row.position_count(), 6);
  CachePlaces pages;
  pages.page_size = 16;
  pages.outer_dim = 1;
  pages.inner_dim = 2;
  pages.ranges = {{3, 5}, {9, 10}};
  pages.left_out = 7;
  EXPECT_EQ(ParseCachePlaces("pages of 16 dims 1,2: 3:5,9+7"), pages);
  EXPECT_EQ(pages.position_count(), 48);
  CachePlaces slots;
  slots.page_size = 1;
  slots.ranges = {{5, 6}};
  EXPECT_EQ(ParseCachePlaces("pages of 1 dims 0: 5"), slots);
  EXPECT_EQ(ParseCachePlaces("unknown: it slides").problem, "it slides");
}

TEST(CachePlacesTest, ARequestMayHaveNoPlaces) {
  for (const char* const text :
       {"row 0 dims 0,2:", "row 0 dims 0,2: ", "pages of 4 dims 0,1: +3"}) {
    const CachePlaces places = ParseCachePlaces(text);
    EXPECT_EQ(places.problem, "") << text;
    EXPECT_EQ(places.position_count(), 0);
  }
}

TEST(CachePlacesTest, OtherTextsAreRefused) {
  for (const char* const text : {"",
                                 "row",
                                 "row 1",
                                 "row 1 dims 0: 4",
                                 "row -1 dims 0,2: 4",
                                 "row 1 dims 0,2: 4,",
                                 "row 1 dims 0,2: 4:4",
                                 "row 1 dims 0,2: 5:4",
                                 "row 1 dims 0,0: 4",
                                 "row 1 dims 0,32: 4",
                                 "row 1 dims 0,2: -4",
                                 "row 1 dims 0,2: 4 ",
                                 "row 1 dims 0,2: 4+",
                                 "row 1 dims 0,2: a",
                                 "pages of 0 dims 0,1: 1",
                                 "pages of 2 dims 0: 1",
                                 "pages of 1048577 dims 0,1: 1",
                                 "pages of 2 dims 0,1: 1099511627777",
                                 "pages of 2 dims 0,1: 1-2",
                                 "1:2@0/2",
                                 "unknown",
                                 "row 1 dims 0,2: 4\xff"}) {
    EXPECT_NE(ParseCachePlaces(text).problem, "") << text;
  }
}

TEST(CachePlacesTest, AnElementIsThereOnce) {
  EXPECT_EQ(ParseCachePlaces("pages of 2 dims 0,1: 3:9,4").problem,
            "the record of its places names an element twice");
  EXPECT_EQ(ParseCachePlaces("pages of 2 dims 0,1: 3:9,9,2").problem, "");
}

TEST(CachePlacesTest, NumbersAreBounded) {
  EXPECT_EQ(ParseCachePlaces("pages of 1048576 dims 0,1: 0:1099511627776")
                .position_count(),
            int64_t{1} << 60);
  std::string text = "pages of 1048576 dims 0,1: ";
  for (int64_t i = 0; i < 100; ++i) {
    // Ranges that overlap are refused, and do not overflow before.
    text += "0:1099511627776,";
  }
  text.pop_back();
  EXPECT_NE(ParseCachePlaces(text).problem, "");
  text = "pages of 4 dims 0,1: ";
  for (size_t i = 0; i <= kCacheRangesMax; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(2 * i);
  }
  EXPECT_NE(ParseCachePlaces(text).problem, "");
  text.resize(text.rfind(','));
  EXPECT_EQ(ParseCachePlaces(text).ranges.size(), kCacheRangesMax);
}

TEST(CachePlacesTest, LinesHaveNames) {
  EXPECT_THAT(SplitCacheText("a = x\nb.c = y = z\n\n = q\nd\ne = "),
              ElementsAre(Pair("a", "x"), Pair("b.c", "y = z"), Pair("e", "")));
  EXPECT_THAT(SplitCacheText(""), IsEmpty());
  std::string text;
  for (size_t i = 0; i <= kCacheLinesMax; ++i) text += "a = x\n";
  EXPECT_THAT(SplitCacheText(text), SizeIs(kCacheLinesMax));
}

TEST(CachePlacesTest, AnyTextIsHandled) {
  constexpr char kCharacters[] = "0123456789:,+ -rowpagesdimunk\n\0\x80";
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? "row 1 dims 0,2: 4:9,12" : "pages of 16 d";
    for (int change = 0; change < 4; ++change) {
      text.insert(random() % (text.size() + 1), 1,
                  kCharacters[random() % sizeof(kCharacters)]);
      text.erase(random() % text.size(), 1);
    }
    const CachePlaces places = ParseCachePlaces(text);
    EXPECT_GE(places.position_count(), 0);
    EXPECT_LE(places.ranges.size(), kCacheRangesMax);
  }
}

}  // namespace
}  // namespace msitd
