// SPDX-License-Identifier: Apache-2.0
#include "protos/base/request_rows.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace msitd {
namespace {

TEST(RequestRowsTest, PartsAreOptional) {
  EXPECT_EQ(ParseRequestRows("0:3"), (RequestRows{{0, 3}}));
  EXPECT_EQ(ParseRequestRows("1:2@7"), (RequestRows{{1, 2}, {}, 7}));
  EXPECT_EQ(ParseRequestRows("3:8/12"), (RequestRows{{3, 8}, {}, {}, 12}));
  EXPECT_EQ(ParseRequestRows("1:2,4:9@0/2,9"),
            (RequestRows{{1, 2}, RowRange{4, 9}, 0, 2, 9}));
  EXPECT_EQ(ParseRequestRows("1:2/2,9"), (RequestRows{{1, 2}, {}, {}, 2, 9}));
}

TEST(RequestRowsTest, OtherTextsAreRefused) {
  for (const char* const text : {"",
                                 ":",
                                 "3",
                                 "3:",
                                 ":3",
                                 "3:2",
                                 "-1:2",
                                 "0:+2",
                                 " 0:2",
                                 "0:2 ",
                                 "0:2@",
                                 "0:2/",
                                 "0:2/1",
                                 "0:2,0:5/2,4",
                                 "0:2,5:4",
                                 "0:2,0:1/2",
                                 "0:2/2,",
                                 "a:b",
                                 "0:2@-1",
                                 "0:2@1@2",
                                 "0:2/2,4,8",
                                 "0:99999999999999999999",
                                 "0:1099511627777",
                                 "0:2,"}) {
    EXPECT_FALSE(ParseRequestRows(text).has_value()) << text;
  }
}

TEST(RequestRowsTest, AnyBytesAreRead) {
  std::mt19937 random(1);
  const std::string letters = "0123456789:,@/-+ ";
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    for (size_t size = random() % 12; size > 0; --size) {
      text += letters[random() % letters.size()];
    }
    const auto rows = ParseRequestRows(text);
    if (!rows.has_value()) continue;
    EXPECT_LE(rows->rows.first, rows->rows.end) << text;
  }
}

}  // namespace
}  // namespace msitd
