// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/json_reader.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/trees/json/json_limits.h"
#include "client/foreign/trees/json/json_value.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/trees/json_of.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Describe(JsonToken token, const std::string& text) {
  switch (token) {
    case JsonToken::kObjectBegin:
      return "{";
    case JsonToken::kObjectEnd:
      return "}";
    case JsonToken::kArrayBegin:
      return "[";
    case JsonToken::kArrayEnd:
      return "]";
    case JsonToken::kKey:
      return text + ":";
    case JsonToken::kString:
      return "'" + text + "'";
    case JsonToken::kNumber:
      return text;
    case JsonToken::kTrue:
      return "true";
    case JsonToken::kFalse:
      return "false";
    case JsonToken::kNull:
      return "null";
    case JsonToken::kEnd:
      break;
  }
  return "end";
}

// Returns all tokens. The last one is the error, if there is one.
std::vector<std::string> Tokens(std::string json) {
  const formats::MemorySource bytes(std::move(json));
  JsonReader reader(bytes);
  std::vector<std::string> out;
  for (;;) {
    const auto token = reader.Next();
    if (!token.ok()) {
      out.emplace_back(Message(token.status()));
      EXPECT_EQ(reader.Next().status(), token.status());
      return out;
    }
    if (*token == JsonToken::kEnd) return out;
    out.push_back(Describe(*token, reader.text()));
  }
}

TEST(JsonReaderTest, TokensComeInTheirOrder) {
  EXPECT_THAT(Tokens(R"( {"a": [1, true, {}], "b": null, "a": "x"} )"),
              ElementsAre("{", "a:", "[", "1", "true", "{", "}", "]",
                          "b:", "null", "a:", "'x'", "}"));
  EXPECT_THAT(Tokens("[]"), ElementsAre("[", "]"));
  EXPECT_THAT(Tokens("false"), ElementsAre("false"));
}

TEST(JsonReaderTest, NumbersStayAsTheyAreWritten) {
  EXPECT_THAT(
      Tokens("[-9223372036854775808, 18446744073709551616, 0.10, 1e-05, "
             "-0.0, 2E+3]"),
      ElementsAre("[", "-9223372036854775808", "18446744073709551616", "0.10",
                  "1e-05", "-0.0", "2E+3", "]"));
}

TEST(JsonReaderTest, WhatIsNotFiniteIsANumberOutsideOfStringsOnly) {
  EXPECT_THAT(
      Tokens(R"({"NaN": NaN, "b": Infinity, "c": -Infinity, "d": "NaN"})"),
      ElementsAre("{", "NaN:", "NaN", "b:", "Infinity", "c:", "-Infinity",
                  "d:", "'NaN'", "}"));
}

TEST(JsonReaderTest, EscapesAreTakenOutOfTexts) {
  EXPECT_THAT(Tokens(R"(["\"\\\/\b\f\n\r\t", "\u00e4\u4e2d", "\ud83d\ude00"])"),
              ElementsAre("[", "'\"\\/\b\f\n\r\t'", "'\u00e4\u4e2d'",
                          "'\U0001F600'", "]"));
}

TEST(JsonReaderTest, HalfOfASurrogatePairComesAsText) {
  EXPECT_THAT(
      Tokens(R"(["\ud800", "\udc00x", "\ud800\n", "\ud800\ud83d\ude00"])"),
      ElementsAre("[", "'\\ud800'", "'\\udc00x'", "'\\ud800\n'",
                  "'\\ud800\U0001F600'", "]"));
}

TEST(JsonReaderTest, TextsMayLieAcrossBuffers) {
  for (const size_t blanks : {65530, 65533, 65534, 65535, 65536}) {
    const std::string json =
        std::string(blanks, ' ') + R"(["a\u00e4b", -1.5e3, Infinity])";
    EXPECT_THAT(Tokens(json),
                ElementsAre("[", "'a\u00e4b'", "-1.5e3", "Infinity", "]"));
  }
}

TEST(JsonReaderTest, WhatIsNoJsonIsRefused) {
  const char* const kWrong[] = {
      "",         "{",
      "[1",       "[1,]",
      "{\"a\"}",  "{\"a\":}",
      "{,}",      "[1 2]",
      "[}",       "{]",
      "01",       "1.",
      ".5",       "+1",
      "-",        "1e",
      "nul",      "nan",
      "tru",      "-Inf",
      "Inf",      "-NaN",
      "\"a",      "\"\\x\"",
      "1 2",      "\"\\u12\"",
      "\"\n\"",   "{1: 2}",
      "[,]",      "{\"a\": 1,}",
      "\"\xff\"", "// a\n1",
      "'a'",      "\xef\xbb\xbf[]",
  };
  for (const char* json : kWrong) {
    EXPECT_THAT(Tokens(json).back(), HasSubstr("invalid JSON at byte")) << json;
  }
  EXPECT_THAT(Tokens("[1, x]").back(),
              HasSubstr("at byte 5: a value is missing"));
}

TEST(JsonReaderTest, DepthIsBounded) {
  const std::string most(kJsonDepthMax, '[');
  EXPECT_EQ(Tokens(most + std::string(kJsonDepthMax, ']')).size(),
            2 * kJsonDepthMax);
  EXPECT_THAT(Tokens(most + "[").back(), HasSubstr("are nested"));
}

TEST(JsonReaderTest, TextsAreBounded) {
  const std::string longest(kJsonTextBytesMax, 'a');
  EXPECT_EQ(Tokens('"' + longest + '"').size(), 1);
  EXPECT_THAT(Tokens('"' + longest + "a\"").back(), HasSubstr("longer than"));
  EXPECT_THAT(Tokens(std::string(kJsonTextBytesMax + 1, '1')).back(),
              HasSubstr("longer than"));
  std::string halves = "\"";
  while (halves.size() < kJsonTextBytesMax + 64) halves += "\\ud800";
  EXPECT_THAT(Tokens(halves + '"').back(), HasSubstr("longer than"));
}

TEST(JsonReaderTest, LeavesWhatIsOpen) {
  const formats::MemorySource bytes(R"([[1, {"a": [2]}, 3], 4])");
  JsonReader reader(bytes);
  ASSERT_EQ(*reader.Next(), JsonToken::kArrayBegin);
  ASSERT_EQ(*reader.Next(), JsonToken::kArrayBegin);
  EXPECT_EQ(reader.depth(), 2);
  ASSERT_TRUE(reader.LeaveTo(1).ok());
  ASSERT_EQ(*reader.Next(), JsonToken::kNumber);
  EXPECT_EQ(reader.text(), "4");
}

TEST(JsonValueTest, TheLastOfEqualKeysCounts) {
  const JsonValue value = JsonOf(R"({"a": 1, "b": [2, null], "a": "x"})");
  EXPECT_THAT(value.keys, ElementsAre("a", "b", "a"));
  EXPECT_EQ(value.Find("a")->text, "x");
  EXPECT_EQ(value.Find("b")->items.size(), 2);
  EXPECT_EQ(value.Find("c"), nullptr);
}

TEST(JsonValueTest, IntegersAreWholeAndInTheirRange) {
  EXPECT_EQ(IntegerOf(JsonOf("7"), 0, 7), 7);
  EXPECT_EQ(IntegerOf(JsonOf("8"), 0, 7), std::nullopt);
  EXPECT_EQ(IntegerOf(JsonOf("-1"), 0, 7), std::nullopt);
  for (const char* json :
       {"7.0", "1e0", "NaN", "\"7\"", "null", "99999999999999999999"}) {
    EXPECT_EQ(IntegerOf(JsonOf(json), INT64_MIN, INT64_MAX), std::nullopt)
        << json;
  }
}

TEST(JsonValueTest, WhatIsTooLargeIsLeft) {
  std::string json = "[[";
  for (size_t i = 0; i <= kJsonNodesMax; ++i) json += "0,";
  json += "0], 1]";
  const formats::MemorySource bytes(json);
  JsonReader reader(bytes);
  ASSERT_EQ(*reader.Next(), JsonToken::kArrayBegin);
  const auto value = ReadJsonValue(reader);
  EXPECT_EQ(value.status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(reader.LeaveTo(1).ok());
  EXPECT_EQ(ReadJsonValue(reader)->text, "1");
}

}  // namespace
}  // namespace msitd::trees
