// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/ask/text/text.h"

namespace msitd::ask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using enum ColumnNeed;

TEST(TableTest, TextIsLeftAndNumbersAreRight) {
  Table table({{"name"}, {"count", true}, {"note"}}, {});
  table.Add({"a", "1", "x"});
  table.Add({"long name", "12345678", ""});
  EXPECT_EQ(table.Flush(),
            "name          count  note\n"
            "a                 1  x\n"
            "long name  12345678\n");
}

TEST(TableTest, WithoutRowsTheHeadingsAreThere) {
  Table table({{"name"}, {"count", true}}, {});
  EXPECT_EQ(table.Flush(), "name  count\n");
}

TEST(TableTest, HeadingsComeOnce) {
  Table table({{"name"}}, {});
  table.Add({"a"});
  table.Flush();
  table.Add({"b"});
  EXPECT_EQ(table.Flush(), "b\n");
}

TEST(TableTest, OffATerminalNothingIsShortened) {
  Table table({{"op"}}, {});
  table.Add({std::string(500, 'x')});
  EXPECT_THAT(table.Flush(), HasSubstr(std::string(500, 'x')));
}

TEST(TableTest, OnATerminalTheWidestTextIsShortenedToFit) {
  Table table({{"op"}, {"n", true}}, {.width = 30});
  table.Add({std::string(40, 'a') + std::string(40, 'b'), "123456789"});
  const std::string text = table.Flush();
  const std::string last_line = text.substr(text.find('\n') + 1);
  EXPECT_EQ(last_line, "aaaaaaaaa\u2026bbbbbbbbb  123456789\n");
  EXPECT_EQ(DisplayWidth(last_line.substr(0, last_line.size() - 1)), 30u);
}

TEST(TableTest, TextAmongNumbersIsShortened) {
  Table table({{"row", true}, {"mine", true}, {"n", true}}, {.width = 29});
  table.Add({"1", "not measured: 2 elements against 3", "7"});
  table.Add({"2", "0.5", "1234567890"});
  EXPECT_EQ(table.Flush(),
            "row          mine           n\n"
            "  1  not me\u2026nst 3           7\n"
            "  2           0.5  1234567890\n");
}

TEST(TableTest, OptionalColumnsGoFromTheRightIfThereIsNoRoom) {
  Table table({{"op"}, {"a", true, kIfRoom}, {"b", true, kIfRoom}, {"reason"}},
              {.width = 24});
  table.Add({"op", "1234567", "7654321", "why"});
  EXPECT_EQ(table.Flush(),
            "op        a  reason\n"
            "op  1234567  why\n");
  EXPECT_THAT(table.left_out(), ElementsAre("b"));
}

TEST(TableTest, ReadableTextComesBeforeOptionalColumns) {
  Table table({{"op"}, {"a", true, kIfRoom}}, {.width = 26});
  table.Add({std::string(40, 'x'), "1234567"});
  table.Flush();
  EXPECT_THAT(table.left_out(), ElementsAre("a"));
}

TEST(TableTest, NothingGoesIfThereIsRoom) {
  Table table({{"op"}, {"a", true, kIfRoom}}, {.width = 80});
  table.Add({"op", "1"});
  EXPECT_EQ(table.Flush(), "op  a\nop  1\n");
  EXPECT_THAT(table.left_out(), IsEmpty());
}

TEST(TableTest, WhatSaysNothingGoesFirstThenWhatIsEqual) {
  Table table({{"rank", true, kUnlessEqual},
               {"lost", true, kIfRoom},
               {"token", true, kUnlessEqual},
               {"mean", true, kIfRoom}},
              {.width = 12});
  table.Add({"3", "0", "1", "0.5"});
  table.Add({"3", "0", "2", "0.7"});
  EXPECT_EQ(table.Flush(), "token  mean\n    1   0.5\n    2   0.7\n");
  EXPECT_THAT(table.left_out(), ElementsAre("rank (all 3)", "lost (all 0)"));
}

TEST(TableTest, WhatIsEmptyInAllRowsIsNamedAlone) {
  Table table({{"name"}, {"labels", false, kIfRoom}}, {.width = 6});
  table.Add({"a", ""});
  table.Add({"b", ""});
  EXPECT_EQ(table.Flush(), "name\na\nb\n");
  EXPECT_THAT(table.left_out(), ElementsAre("labels"));
}

TEST(TableTest, WhatDiffersStaysIfItIsOnlyToGoWhereItIsEqual) {
  Table table({{"token", true, kUnlessEqual}, {"n", true, kIfRoom}},
              {.width = 6});
  table.Add({"1", "5"});
  table.Add({"2", "6"});
  EXPECT_EQ(table.Flush(), "token\n    1\n    2\n");
}

TEST(TableTest, TheMetricThatFailedStays) {
  Table table({{"cosine", true, kIfRoom},
               {"nl2", true, kIfRoom},
               {"kl", true, kIfRoom},
               {"reason", false, kAlways, true}},
              {.width = 34});
  table.Add({"0.99", "0.302", "0.1", "nl2 = 0.302, needs <= 5e-2; largest"});
  EXPECT_EQ(table.Flush(),
            "  nl2  reason\n"
            "0.302  nl2 = 0.302, needs <= 5e-2\u2026\n");
  EXPECT_THAT(table.left_out(), ElementsAre("cosine", "kl"));
}

TEST(TableTest, NamesThatDifferStayDifferent) {
  Table table({{"op"}, {"a", true, kIfRoom}, {"b", true, kIfRoom}},
              {.width = 44});
  const std::string head = "root.encoder.layers.";
  const std::string tail = ".self_attention.norm2";
  table.Add({head + "1" + tail, "123456", "234567"});
  table.Add({head + "2" + tail, "345678", "456789"});
  const std::string text = table.Flush();
  EXPECT_THAT(text, HasSubstr("root.encoder.layers.1"));
  EXPECT_THAT(text, HasSubstr("root.encoder.layers.2"));
  EXPECT_THAT(table.left_out(), ElementsAre("a", "b"));
}

TEST(TableTest, AColumnThatNoRowHasIsNotThereWhereverItGoes) {
  Table table({{"op"}, {"ulp", true, kIfAny}, {"bits", true, kIfAny}}, {});
  table.Add({"a", "-", "-"});
  table.Add({"b", "3", "-"});
  EXPECT_EQ(table.Flush(), "op  ulp\na     -\nb     3\n");
  EXPECT_THAT(table.left_out(), IsEmpty());
}

TEST(TableTest, ACellCannotBreakItsLine) {
  Table table({{"name"}, {"x"}}, {});
  table.Add({"a\nb\x1b[1m", "y"});
  EXPECT_EQ(table.Flush(),
            "name         x\n"
            "a\\nb\\x1b[1m  y\n");
}

TEST(TableTest, ColorsMarkHeadingsAndVerdicts) {
  Table table({{"verdict"}}, {.color = true});
  table.Add({"fail"});
  table.Add({"failure"});
  EXPECT_EQ(table.Flush(),
            "\x1b[1mverdict\x1b[0m\n"
            "\x1b[31mfail\x1b[0m\n"
            "failure\n");
}

}  // namespace
}  // namespace msitd::ask
