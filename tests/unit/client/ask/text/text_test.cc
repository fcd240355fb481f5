// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/text.h"

#include <gtest/gtest.h>

#include "protos/text/size_text.h"

namespace msitd::ask {
namespace {

TEST(TextTest, WhatMovesTheCursorIsEscaped) {
  EXPECT_EQ(Printable("a\tb\nc\rd\x1b[2J\x07"), "a\\tb\\nc\\rd\\x1b[2J\\x07");
  EXPECT_EQ(Printable("\x7f"), "\\x7f");
  EXPECT_EQ(Printable("\u009b31m"), "\\u{9b}31m");
}

TEST(TextTest, WhatReordersOrHidesTextIsEscaped) {
  EXPECT_EQ(Printable("a\u202eb"), "a\\u{202e}b");
  EXPECT_EQ(Printable("a\u200bb"), "a\\u{200b}b");
  EXPECT_EQ(Printable("a\u2028b"), "a\\u{2028}b");
  // This code point is unassigned.
  EXPECT_EQ(Printable("a\U000e0002b"), "a\\u{e0002}b");
}

TEST(TextTest, BytesThatAreNotUtf8AreEscapedOneByOne) {
  EXPECT_EQ(Printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

TEST(TextTest, OrdinaryTextStaysAsItIs) {
  EXPECT_EQ(Printable("layers.0[1] 注意 \u00e9"), "layers.0[1] 注意 \u00e9");
}

TEST(TextTest, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("注意"), 4u);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1u);
  EXPECT_EQ(DisplayWidth("\u26a1\U0001f680"), 4u);
  // Devanagari: a consonant with a vowel sign above it.
  EXPECT_EQ(DisplayWidth("\u0915\u0947"), 1u);
}

TEST(TextTest, ShorteningKeepsBothEnds) {
  EXPECT_EQ(Shorten("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(Shorten("abcdefghij", 7), "abc\u2026hij");
  EXPECT_EQ(Shorten("abcdefghij", 4), "ab\u2026j");
  EXPECT_EQ(Shorten("注意注意", 5), "注\u2026意");
  EXPECT_EQ(Shorten("abc", 0), "");
}

TEST(TextTest, SizesHaveOneDecimalAtMost) {
  EXPECT_EQ(HumanSize(0), "0 B");
  EXPECT_EQ(HumanSize(1023), "1023 B");
  EXPECT_EQ(HumanSize(1024), "1 KiB");
  EXPECT_EQ(HumanSize(1536 << 10), "1.5 MiB");
  EXPECT_EQ(HumanSize((1 << 20) - 1), "1 MiB");
  EXPECT_EQ(HumanSize(int64_t{1} << 40), "1 TiB");
}

TEST(TextTest, DurationsAreShort) {
  EXPECT_EQ(HumanDuration(0.25), "0.25s");
  EXPECT_EQ(HumanDuration(42.9), "42s");
  EXPECT_EQ(HumanDuration(187), "3m07s");
  EXPECT_EQ(HumanDuration(7205), "2h00m05s");
  EXPECT_EQ(HumanDuration(262800), "3d01h");
}

TEST(TextTest, CsvQuotesWhatRfc4180Asks) {
  EXPECT_EQ(CsvLine({"plain text", "", "[2, 3]"}, false),
            "plain text,,\"[2, 3]\"\n");
  EXPECT_EQ(CsvLine({"say \"hi\"", "a\nb"}, false),
            "\"say \"\"hi\"\"\",\"a\nb\"\n");
  EXPECT_EQ(CsvLine({"=A1,B1", "-2"}, true), "\"'=A1,B1\",-2\n");
  EXPECT_EQ(CsvLine({"=A1"}, false), "=A1\n");
  EXPECT_EQ(CsvLine({}, true), "\n");
}

TEST(TextTest, PrintedSizesAreTaken) {
  for (const int64_t size : {int64_t{0}, int64_t{512}, int64_t{3} << 19,
                             int64_t{1} << 42, int64_t{5} << 50}) {
    EXPECT_EQ(*text::ParseSize(HumanSize(size)), size) << HumanSize(size);
  }
}

}  // namespace
}  // namespace msitd::ask
