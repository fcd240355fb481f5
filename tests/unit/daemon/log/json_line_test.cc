// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/json_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace msitd::log {
namespace {

using Json = nlohmann::json;

Json Parsed(const std::string& text) {
  const spdlog::log_clock::time_point time{
      std::chrono::milliseconds(1'700'000'000'123)};
  const std::string line = JsonLine(
      spdlog::details::log_msg(time, {}, "server", spdlog::level::warn, text));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  return Json::parse(line);
}

TEST(JsonLineTest, AnEventHasItsFields) {
  const Json line =
      Parsed("store open data_dir=/var/lib/msitd runs=3 note='two words'");
  EXPECT_EQ(line["time"], "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["module"], "server");
  EXPECT_EQ(line["event"], "store open");
  EXPECT_EQ(line["fields"], Json({{"data_dir", "/var/lib/msitd"},
                                  {"runs", "3"},
                                  {"note", "two words"}}));
}

TEST(JsonLineTest, APlainTextIsAnEventAlone) {
  const Json line = Parsed("segment 3 cannot be read: no such file");
  EXPECT_EQ(line["event"], "segment 3 cannot be read: no such file");
  EXPECT_FALSE(line.contains("fields"));
}

TEST(JsonLineTest, AQuotedValueMayHaveQuotesAndKeysInside) {
  const Json line =
      Parsed("stream ended message='run 'a=b' is sealed, x=1' suppressed=0");
  EXPECT_EQ(line["fields"]["message"], "run 'a=b' is sealed, x=1");
  EXPECT_EQ(line["fields"]["suppressed"], "0");
}

TEST(JsonLineTest, AnyBytesMakeOneValidLine) {
  for (const std::string& text :
       {std::string("x=\n\t\"\\"), std::string("a='\xff\xfe'"),
        std::string("\0=\0", 3), std::string("='"), std::string("x='"),
        std::string("x= y=")}) {
    (void)Parsed(text);
  }
}

}  // namespace
}  // namespace msitd::log
