// SPDX-License-Identifier: Apache-2.0
#include "protos/base/glob.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace msitd {
namespace {

struct Row {
  std::string_view pattern;
  std::string_view text;
  bool matches;
};

TEST(GlobMatchTest, StarAndQuestionMarkAreTheOnlySpecialBytes) {
  constexpr Row kRows[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "anything at all", true},
      {"**", "x", true},
      {"?", "", false},
      {"?", "x", true},
      {"?", "xy", false},
      {"layer.3.*", "layer.3.dense", true},
      {"layer.3.*", "layer.3", false},
      {"layer.3.*", "layer.30.dense", false},
      {"*.dense", "encoder.layer.3.output.dense", true},
      {"*.dense", "encoder.dense.x", false},
      {"a*b*c", "aXbYc", true},
      {"a*b*c", "abcbc", true},
      {"a*b*c", "acb", false},
      {"op[0]", "op[0]", true},
      {"op[0]", "op0", false},
      {"a\\*", "a\\xyz", true},
      {"Layer", "layer", false},
      {"a/*", "a/b/c", true},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(GlobMatch(row.pattern, row.text), row.matches)
        << "'" << row.pattern << "' against '" << row.text << "'";
  }
}

TEST(GlobMatchTest, QuestionMarkTakesOneByteNotOneCharacter) {
  EXPECT_FALSE(GlobMatch("?", "\xc3\xa9"));
  EXPECT_TRUE(GlobMatch("??", "\xc3\xa9"));
}

TEST(GlobMatchTest, ManyStarsStayWithinTheirSteps) {
  // A matcher with exponential run time would not finish this.
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "a*";
  const std::string text(4000, 'a');
  EXPECT_TRUE(GlobMatch(pattern, text));
  EXPECT_FALSE(GlobMatch(pattern + "b", text));
}

// A simple and slow implementation of the definition.
bool Reference(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return Reference(pattern.substr(1), text) ||
           (!text.empty() && Reference(pattern, text.substr(1)));
  }
  return !text.empty() &&
         (pattern.front() == '?' || pattern.front() == text.front()) &&
         Reference(pattern.substr(1), text.substr(1));
}

TEST(GlobMatchTest, AgreesWithTheDefinitionOnRandomInput) {
  std::mt19937 random(7);
  const auto draw = [&random](std::string_view alphabet, size_t max) {
    std::string out(random() % (max + 1), ' ');
    for (char& c : out) c = alphabet[random() % alphabet.size()];
    return out;
  };
  int matches = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string pattern = draw("ab*?", 6);
    const std::string text = draw("ab", 7);
    const bool expected = Reference(pattern, text);
    matches += expected ? 1 : 0;
    ASSERT_EQ(GlobMatch(pattern, text), expected) << pattern << " " << text;
  }
  EXPECT_GT(matches, 1000);
}

TEST(GlobMatchTest, StarsAreWhatThePatternLeavesOpen) {
  std::vector<std::string_view> stars;
  EXPECT_TRUE(GlobMatch("*.qkv", "l.0.qkv", stars));
  EXPECT_EQ(FillStars("*.q", stars), "l.0.q");
  EXPECT_TRUE(GlobMatch("a.*.b.*.c", "a.1.b.2.c", stars));
  EXPECT_EQ(FillStars("*-*", stars), "1-2");
  EXPECT_TRUE(GlobMatch("plain", "plain", stars));
  EXPECT_TRUE(stars.empty());
  EXPECT_FALSE(GlobMatch("a*", "b", stars));
  EXPECT_TRUE(stars.empty());
}

TEST(GlobMatchTest, StarsGiveBackTheText) {
  std::mt19937 random(8);
  const auto draw = [&random](std::string_view alphabet, size_t max) {
    std::string out(random() % (max + 1), ' ');
    for (char& c : out) c = alphabet[random() % alphabet.size()];
    return out;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string pattern = draw("ab*", 6);
    const std::string text = draw("ab", 8);
    std::vector<std::string_view> stars;
    const bool expected = Reference(pattern, text);
    ASSERT_EQ(GlobMatch(pattern, text, stars), expected);
    if (expected) {
      ASSERT_EQ(FillStars(pattern, stars), text) << pattern;
    }
  }
}

}  // namespace
}  // namespace msitd
