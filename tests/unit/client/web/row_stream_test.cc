// SPDX-License-Identifier: Apache-2.0
#include "client/web/row_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::web {
namespace {

TEST(RowStreamTest, ParsesRequests) {
  RowStreamRequest request;
  ASSERT_TRUE(
      ParseRowStreamRequest(R"({"comparison":"c-000001"})", request).ok());
  EXPECT_EQ(request.comparison, "c-000001");
  EXPECT_EQ(request.first_row, 0);
  EXPECT_TRUE(request.verdicts.empty());
  ASSERT_TRUE(
      ParseRowStreamRequest(
          R"({"comparison":"c","first_row":12,"verdicts":["FAIL","PASS"]})",
          request)
          .ok());
  EXPECT_EQ(request.first_row, 12);
  EXPECT_EQ(request.verdicts, (std::vector<v1::Verdict>{v1::FAIL, v1::PASS}));
}

TEST(RowStreamTest, RefusesEverythingElse) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"),
        std::string("{}"), std::string(R"({"comparison":""})"),
        std::string(R"({"comparison":7})"),
        std::string(R"({"comparison":"c","first_row":-1})"),
        std::string(R"({"comparison":"c","first_row":"1"})"),
        std::string(R"({"comparison":"c","verdicts":["NONE"]})"),
        std::string(R"({"comparison":"c","verdicts":[1]})"),
        std::string(R"({"comparison":"c","verdicts":"FAIL"})"),
        std::string(R"({"comparison":"c","more":1})"),
        std::string(10'000, '[')}) {
    RowStreamRequest request;
    EXPECT_FALSE(ParseRowStreamRequest(text, request).ok())
        << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace msitd::web
