// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string YamlError(const std::string& text) {
  const auto value = ReadYaml(text);
  EXPECT_FALSE(value.ok());
  return std::string(Message(value.status()));
}

TEST(YamlTextTest, ValuesAreReadWithTheirLines) {
  const auto value = ReadYaml(
      "# comment\n---\n\"a: b\": 'c # d'\nlist:\n- 0\n- x.y  # more\nmap: {k: "
      "[1, ~]}\nnone:\n");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->kind, YamlValue::Kind::kMap);
  EXPECT_THAT(value->keys, ElementsAre("a: b", "list", "map", "none"));
  EXPECT_EQ(value->items[0].text, "c # d");
  const YamlValue* const list = value->Find("list");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->kind, YamlValue::Kind::kList);
  EXPECT_EQ(list->items[1].text, "x.y");
  EXPECT_EQ(list->items[1].line, 6);
  EXPECT_EQ(value->Find("map")->items[0].items[1].kind, YamlValue::Kind::kNull);
  EXPECT_EQ(value->Find("none")->kind, YamlValue::Kind::kNull);
  EXPECT_EQ(value->Find("absent"), nullptr);
}

TEST(YamlTextTest, NothingIsNull) {
  for (const char* text : {"", "\n", "# comment\n", "---\n"}) {
    const auto value = ReadYaml(text);
    ASSERT_TRUE(value.ok()) << text << value.status();
    EXPECT_EQ(value->kind, YamlValue::Kind::kNull) << text;
  }
}

TEST(YamlTextTest, WhatIsNoYamlIsRefusedWithItsLine) {
  EXPECT_THAT(YamlError("a: 1\nb: [1, 2\n"), HasSubstr("line "));
  EXPECT_THAT(YamlError("a: 1\nb: 2\na: 3\n"),
              HasSubstr("line 3: \"a\" appears twice"));
  EXPECT_THAT(YamlError("{a: {b: 1, b: 2}}"), HasSubstr("\"b\" appears twice"));
  EXPECT_THAT(YamlError("? [a, b]\n: c\n"), HasSubstr("a key is not a string"));
  EXPECT_THAT(YamlError("~: c\n"), HasSubstr("a key is empty"));
  EXPECT_THAT(YamlError("a: 1\n---\nb: 2\n"), HasSubstr("one document"));
  EXPECT_THAT(YamlError(std::string("a: \0b", 5)), HasSubstr("UTF-8"));
  EXPECT_THAT(YamlError("a: \xff\n"), HasSubstr("UTF-8"));
  for (const char* text :
       {"'a: b", "\"a\" b: c", "a: 'b' c", "a: b: c", "\ta: b", "@a: b",
        "%YAML 9.9\n---\na: b", "}", "]", "a: !<", "- a\nb: c"}) {
    EXPECT_FALSE(ReadYaml(text).ok()) << text;
  }
}

TEST(YamlTextTest, AliasesAreRefused) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string before =
        Repeated(std::string("*") + char(c - 1) + ", ", 9);
    bomb += std::string(1, c) + ": &" + c + " [" + before + "]\n";
  }
  EXPECT_THAT(YamlError(bomb), HasSubstr("line 2: aliases are not supported"));
  EXPECT_THAT(YamlError("a: &x {b: *x}\n"), HasSubstr("aliases"));
  EXPECT_THAT(YamlError("? *x\n: 1\n"), HasSubstr("anchor"));
  // An anchor without an alias is allowed.
  EXPECT_TRUE(ReadYaml("a: &x b\n").ok());
}

TEST(YamlTextTest, BoundsAreKept) {
  const auto code = [](const std::string& text) {
    return ReadYaml(text).status().code();
  };
  constexpr auto kBeyond = absl::StatusCode::kResourceExhausted;
  EXPECT_EQ(code(std::string(kYamlBytesMax + 1, 'a')), kBeyond);
  EXPECT_EQ(code(Repeated("- a\n", kYamlValuesMax)), kBeyond);
  EXPECT_EQ(code(Repeated("[", kYamlDepthMax) + Repeated("]", kYamlDepthMax)),
            absl::StatusCode::kOk);
  for (const char* open : {"[", "{a: ", "- ", "? "}) {
    EXPECT_FALSE(ReadYaml(Repeated(open, 100'000)).ok()) << open;
  }
  EXPECT_EQ(
      code(Repeated("[", kYamlDepthMax + 1) + Repeated("]", kYamlDepthMax + 1)),
      kBeyond);
}

TEST(YamlTextTest, WhatTheParserWouldHoldIsBounded) {
  for (const char* piece :
       {"[", "[a,", "{a,", "{a: ", "[],", "a,", "a,\n", "\"a\":b,\n", ":,",
        "!a ", "*a ", "&a ", "\"\" ", "''\n\n"}) {
    for (const char* before : {"", "[", "{", "a:\n- {b: ["}) {
      const std::string text =
          before + Repeated(piece, 8 * kYamlUntoldMax / std::strlen(piece));
      const auto value = ReadYaml(text);
      // Some of these are not valid YAML, which is detected first.
      EXPECT_FALSE(value.ok()) << before << piece;
    }
  }
  EXPECT_THAT(YamlError(Repeated("[", 8 * kYamlUntoldMax)),
              HasSubstr("has too much text in one line"));
  EXPECT_THAT(YamlError("[" + Repeated("a,\n", kYamlUntoldMax + 1) + "]"),
              HasSubstr("has too much text in one line"));
}

TEST(YamlTextTest, BracketsAndQuotesInTextsAreTexts) {
  std::string text = "text: |\n" + Repeated("  [{\"'\n", 50'000) +
                     Repeated("# [{\"'\n", 50'000);
  for (int i = 0; i < 100'000; ++i) {
    text += "x" + std::to_string(i) + ": y[{, it's \"[\"\n";
  }
  text += "z: \"[[[[\"\n";
  const auto value = ReadYaml(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->keys.size(), 100'002);
  std::string json = "{";
  for (int i = 0; i < 30'000; ++i) {
    json += "\"op." + std::to_string(i) + "\": \"[\",";
  }
  const auto map = ReadYaml(json + "\"last\": \"x\"}");
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->keys.size(), 30'001);
}

}  // namespace
}  // namespace msitd::ask
