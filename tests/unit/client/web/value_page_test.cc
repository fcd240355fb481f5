// SPDX-License-Identifier: Apache-2.0
#include "client/web/value_page.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msitd::web {
namespace {

TEST(ValuePageTest, ParsesRequests) {
  ValuesRequest request;
  ASSERT_TRUE(
      ParseValuesRequest(R"({"comparison":"c","row":7})", request).ok());
  EXPECT_EQ(request.comparison, "c");
  EXPECT_EQ(request.row, 7);
  EXPECT_FALSE(request.dims.has_value());
  EXPECT_FALSE(request.at.has_value());
  EXPECT_FALSE(request.only_slice);
  ASSERT_TRUE(ParseValuesRequest(R"({"comparison":"c","row":0,"dims":[-1,2],)"
                                 R"("at":[1,0,3],"only_slice":true})",
                                 request)
                  .ok());
  EXPECT_EQ(request.dims, (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(request.at, (std::vector<int64_t>{1, 0, 3}));
  EXPECT_TRUE(request.only_slice);
}

TEST(ValuePageTest, RefusesEverythingElse) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"),
        std::string(R"({"comparison":"c"})"),
        std::string(R"({"comparison":"","row":1})"),
        std::string(R"({"comparison":"c","row":-1})"),
        std::string(R"({"comparison":"c","row":1e300})"),
        std::string(R"({"comparison":"c","row":18446744073709551615})"),
        std::string(R"({"comparison":"c","row":"1"})"),
        std::string(R"({"comparison":"c","row":1,"dims":1})"),
        std::string(R"({"comparison":"c","row":1,"dims":[-2,0]})"),
        std::string(R"({"comparison":"c","row":1,"at":[-1]})"),
        std::string(R"({"comparison":"c","row":1,"at":[0.5]})"),
        std::string(
            R"({"comparison":"c","row":1,"at":[18446744073709551615]})"),
        std::string(R"({"comparison":"c","row":1,"only_slice":1})"),
        std::string(R"({"comparison":"c","row":1,"more":1})"),
        std::string(10'000, '[')}) {
    ValuesRequest request;
    EXPECT_FALSE(ParseValuesRequest(text, request).ok()) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace msitd::web
