// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/csv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CsvTable, ReadsQuotesAndBothLineEnds) {
  const auto table =
      ParseCsv("\xEF\xBB\xBFkey,\"a \"\"b\"\"\"\r\n1,\"x,\r\ny\"\n2,\"\"");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->header, ElementsAre("key", "a \"b\""));
  EXPECT_THAT(table->rows,
              ElementsAre(ElementsAre("1", "x,\r\ny"), ElementsAre("2", "")));
}

TEST(CsvTable, FillsUpShortRowsAndLeavesOutBlankLines) {
  const auto table = ParseCsv("a,b\n\n1\r\n\r\n,\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->rows,
              ElementsAre(ElementsAre("1", ""), ElementsAre("", "")));
}

TEST(CsvTable, RefusesWhatIsNoTable) {
  struct Case {
    std::string text;
    std::string problem;
  };
  const Case cases[] = {
      {"a,b\n1,2\n3,\"4", "a quote in line 3 is not closed"},
      {"a,b\n1,2,3\n", "line 2 has 3 fields, the header has 2"},
      {"a,a\n", "column \"a\" appears twice"},
      {"\n\n", "it has no header"},
      {std::string(kCsvColumnsMax, ','), "too many columns"},
  };
  for (const Case& c : cases) {
    const auto table = ParseCsv(c.text);
    ASSERT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(table.status())), HasSubstr(c.problem));
  }
  EXPECT_TRUE(ParseCsv("a,b\n1,2\n").ok());
}

TEST(CsvTable, NamesTheFileThatItCannotRead) {
  const auto table = ReadCsv("/nowhere/x.csv");
  EXPECT_THAT(std::string(Message(table.status())),
              HasSubstr("/nowhere/x.csv"));
}

}  // namespace
}  // namespace msitd::msit_command
