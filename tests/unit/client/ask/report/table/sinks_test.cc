// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/table/sinks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

ReportSink Into(std::string& out) {
  return [&out](std::string_view bytes) {
    out += bytes;
    return absl::OkStatus();
  };
}

// Writes one row below `headings`.
std::string Written(TableSink& table, const std::vector<std::string>& headings,
                    const Cells& cells, const std::string& out) {
  EXPECT_TRUE(table.Begin(headings).ok());
  EXPECT_TRUE(table.Add(cells).ok());
  EXPECT_TRUE(table.Finish().ok());
  return out;
}

TEST(CsvSinkTest, CellsAreQuotedOnlyWhereTheyMustBe) {
  std::string out;
  const auto table = MakeCsvSink(Into(out));
  EXPECT_EQ(Written(*table, {"plain", "a,b", "c", "d", "e"},
                    {"a b", "[2, 3]", "say \"x\"", Cell(), int64_t{-3}}, out),
            "plain,\"a,b\",c,d,e\na b,\"[2, 3]\",\"say \"\"x\"\"\",,-3\n");
}

TEST(CsvSinkTest, OnlyWhatIsNoNumberIsGuarded) {
  const Cells cells = {"=1+1", "-1", "-x", Real{-kInf}, int64_t{-3}};
  std::string plain;
  const auto as_is = MakeCsvSink(Into(plain));
  EXPECT_THAT(Written(*as_is, {"@a", "b", "c", "d", "e"}, cells, plain),
              HasSubstr("@a,b,c,d,e\n=1+1,-1,-x,-inf,-3\n"));
  std::string out;
  const auto guarded = MakeCsvSink(Into(out), /*guards_formulas=*/true);
  EXPECT_EQ(Written(*guarded, {"@a", "b", "c", "d", "e"}, cells, out),
            "'@a,b,c,d,e\n'=1+1,-1,'-x,-inf,-3\n");
}

TEST(JsonLinesSinkTest, CellsHaveTheirTypes) {
  std::string out;
  const auto table = MakeJsonLinesSink(Into(out));
  EXPECT_EQ(
      Written(*table, {"text", "none", "count", "value", "nan", "inf", "is"},
              {"a\n\"b\"", Cell(), int64_t{7}, Real{0.1}, Real{kNan},
               Real{kInf, RealStyle::kMsprobe}, Truth{true}},
              out),
      "{\"text\":\"a\\n\\\"b\\\"\",\"none\":null,\"count\":7,"
      "\"value\":0.1,\"nan\":\"nan\",\"inf\":\" inf\",\"is\":true}\n");
}

// Writes a workbook with this many rows, on sheets of three rows and a heading.
absl::StatusOr<std::string> WorkbookOf(int row_count) {
  std::string out;
  const auto table = MakeXlsxSink(Into(out), 3);
  absl::Status status = table->Begin({"a"});
  for (int i = 0; i < row_count && status.ok(); ++i) {
    status = table->Add({int64_t{i}});
  }
  if (status.ok()) status = table->Finish();
  if (!status.ok()) return status;
  return out;
}

TEST(XlsxSinkTest, RowsThatDoNotFitGoOnInTheNextSheet) {
  const auto one = WorkbookOf(2);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(*one, HasSubstr("xl/worksheets/sheet1.xml"));
  EXPECT_THAT(*one, Not(HasSubstr("xl/worksheets/sheet2.xml")));
  const auto three = WorkbookOf(5);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT(*three, HasSubstr("xl/worksheets/sheet3.xml"));
}

TEST(XlsxSinkTest, ADirectoryThatTakesNoFileIsNamed) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/proc/self", 1);
  const absl::Status status = WorkbookOf(1).status();
  if (before == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
  EXPECT_THAT(std::string(Message(status)), HasSubstr("xlsx: /proc/self"));
}

TEST(XlsxSinkTest, MoreRowsThanTheSheetsHoldAreRefused) {
  EXPECT_TRUE(WorkbookOf(2 * kSheetsMax).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(WorkbookOf(2 * kSheetsMax + 1).status()));
}

}  // namespace
}  // namespace msitd::ask
