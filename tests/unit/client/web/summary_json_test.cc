// SPDX-License-Identifier: Apache-2.0
#include "client/web/summary_json.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::web {
namespace {

TEST(SummaryJsonTest, ParsesRequests) {
  SummaryRequest request;
  ASSERT_TRUE(ParseSummaryRequest(
                  R"({"run":"r","value":"l2_norm","group_by":"TOKEN",)"
                  R"("filter":{"op_patterns":["*\u003e"],"ios":["IO_OUTPUT"],)"
                  R"("tokens":[{"first":"1","last":"2"}]}})",
                  request)
                  .ok());
  EXPECT_EQ(request.value, "l2_norm");
  EXPECT_EQ(request.request.run(), "r");
  EXPECT_EQ(request.request.group_by(), v1::SummarizeTensorsRequest::TOKEN);
  EXPECT_EQ(request.request.filter().op_patterns(0), "*>");
  EXPECT_EQ(request.request.filter().tokens(0).last(), 2);
}

TEST(SummaryJsonTest, RefusesEverythingElse) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("7"), std::string("{}"),
        std::string(R"({"run":"r"})"),
        std::string(R"({"run":"r","value":"none"})"),
        std::string(R"({"run":"r","value":7})"),
        std::string(R"({"run":7,"value":"max"})"),
        std::string(R"({"run":"r","value":"max","more":1})"),
        std::string(R"({"run":"r","value":"max","filter":[]})"),
        std::string("{\"run\":\"\xff\",\"value\":\"max\"}"),
        std::string(10'000, '[')}) {
    SummaryRequest request;
    EXPECT_FALSE(ParseSummaryRequest(text, request).ok()) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace msitd::web
