// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/stdio/mcp_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace msitd::msitctl {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A session whose commands answer `answer`, and are kept in `words`.
class McpSessionTest : public ::testing::Test {
 protected:
  Json Ask(const Json& message, bool allows_changes = false) {
    const std::string line = AskLine(message.dump(), allows_changes);
    return line.empty() ? Json() : Json::parse(line);
  }

  std::string AskLine(const std::string& line, bool allows_changes = false) {
    McpSession session(allows_changes,
                       [this](const std::vector<std::string>& words) {
                         words_ = words;
                         return answer_;
                       });
    return session.Answer(line);
  }

  Json Call(const std::string& tool, const Json& arguments,
            bool allows_changes = false) {
    return Ask({{"jsonrpc", "2.0"},
                {"id", 1},
                {"method", "tools/call"},
                {"params", {{"name", tool}, {"arguments", arguments}}}},
               allows_changes);
  }

  CapturedAnswer answer_;
  std::vector<std::string> words_;
};

TEST_F(McpSessionTest, NegotiatesAVersion) {
  const auto version_of = [this](const std::string& wanted) {
    return Ask({{"jsonrpc", "2.0"},
                {"id", "a"},
                {"method", "initialize"},
                {"params",
                 {{"protocolVersion", wanted}}}})["result"]["protocolVersion"];
  };
  EXPECT_EQ(version_of("2024-11-05"), "2024-11-05");
  EXPECT_EQ(version_of("1999-01-01"), "2025-06-18");
}

TEST_F(McpSessionTest, ToolsThatChangeSomethingMustBeAllowed) {
  const Json request = {
      {"jsonrpc", "2.0"}, {"id", 1}, {"method", "tools/list"}};
  const auto names = [](const Json& answer) {
    std::vector<std::string> out;
    for (const Json& tool : answer["result"]["tools"]) {
      out.push_back(tool["name"]);
    }
    return out;
  };
  const std::vector<std::string> few = names(Ask(request));
  const std::vector<std::string> all = names(Ask(request, true));
  EXPECT_EQ(few.size() + 2, all.size());
  EXPECT_THAT(all, ::testing::Contains("compare"));
  EXPECT_THAT(few, ::testing::Not(::testing::Contains("compare")));
  EXPECT_EQ(
      Call("compare", {{"golden", "a"}, {"target", "b"}})["error"]["code"],
      -32602);
  EXPECT_TRUE(words_.empty());
}

TEST_F(McpSessionTest, ArgumentsAreNeverFlags) {
  Call("compare",
       {{"golden", "--out=/etc/passwd"}, {"target", "b"}, {"ops", "--x"}},
       true);
  EXPECT_THAT(words_,
              ElementsAre("compare", "run", "--rows", "none", "--output=table",
                          "--ops=--x", "--", "--out=/etc/passwd", "b"));
}

TEST_F(McpSessionTest, RefusesArgumentsThatItCannotPassOn) {
  for (const Json& arguments :
       {Json::object(), Json({{"run", ""}}), Json({{"run", "a"}, {"x", "b"}}),
        Json({{"run", std::string(2000, 'a')}}),
        Json({{"run", std::string(1, '\0')}})}) {
    const Json answer = Call("get_run", arguments);
    EXPECT_EQ(answer["result"]["isError"], true) << arguments;
  }
  EXPECT_EQ(Call("list_runs", {{"limit", "2;x"}})["result"]["isError"], true);
  EXPECT_TRUE(words_.empty());
  Call("list_runs", {{"limit", 2}});
  EXPECT_THAT(words_,
              ElementsAre("run", "list", "--output=table", "--limit=2", "--"));
}

TEST_F(McpSessionTest, AnswersAreBoundedAndQuoted) {
  for (int i = 0; i < 400; ++i) {
    answer_.out += "a line with \"quotes\" and \\ and \xff and \x01\n";
  }
  const Json answer = Call("list_runs", Json::object());
  const std::string text = answer["result"]["content"][0]["text"];
  EXPECT_LE(text.size(), kMcpAnswerBytesMax);
  EXPECT_GT(text.size(), kMcpAnswerBytesMax / 2);
  const Json inner = Json::parse(text);
  EXPECT_TRUE(inner["output"].get<std::string>().starts_with("a line with \""));
  EXPECT_GT(inner["bytes_left_out"], 0);
}

TEST_F(McpSessionTest, AnAnswerOfOneLineIsCut) {
  answer_.out = std::string(100'000, 'x');
  const Json answer = Call("list_runs", Json::object());
  const std::string text = answer["result"]["content"][0]["text"];
  EXPECT_LE(text.size(), kMcpAnswerBytesMax);
  EXPECT_GT(text.size(), kMcpAnswerBytesMax / 2);
}

TEST_F(McpSessionTest, AComparisonThatFailsIsNoErrorOfTheTool) {
  for (const auto& [code, is_error] :
       {std::pair(0, false), {1, false}, {4, false}, {2, true}, {69, true}}) {
    answer_.exit_code = code;
    answer_.err = "said";
    const Json result = Call("get_run", {{"run", "a"}})["result"];
    EXPECT_EQ(result["isError"], is_error) << code;
    EXPECT_THAT(result["content"][0]["text"].get<std::string>(),
                HasSubstr("said"));
  }
}

TEST_F(McpSessionTest, AnswersOnlyWhatIsAsked) {
  EXPECT_EQ(
      AskLine(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"), "");
  EXPECT_EQ(AskLine(R"({"jsonrpc":"2.0","id":7,"result":{}})"), "");
  EXPECT_EQ(Json::parse(AskLine("{"))["error"]["code"], -32700);
  EXPECT_EQ(Json::parse(AskLine("[]"))["error"]["code"], -32600);
  EXPECT_EQ(Json::parse(AskLine("7"))["error"]["code"], -32600);
  EXPECT_EQ(Json::parse(AskLine(R"({"id":1,"method":7})"))["error"]["code"],
            -32600);
  EXPECT_EQ(Ask({{"id", 1}, {"method", "resources/list"}})["error"]["code"],
            -32601);
  EXPECT_EQ(Ask({{"id", nullptr}, {"method", "ping"}})["result"],
            Json::object());
}

}  // namespace
}  // namespace msitd::msitctl
