// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/ci/markdown_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::ComparisonRow Row(const std::string& op, v1::Verdict verdict,
                      const std::string& reason = "") {
  v1::ComparisonRow out;
  out.set_op(op);
  out.set_verdict(verdict);
  out.set_reason(reason);
  return out;
}

std::string ReportOf(const std::vector<v1::ComparisonRow>& rows) {
  v1::Comparison comparison;
  comparison.set_name("c-000001");
  comparison.set_golden_run("a");
  comparison.set_target_run("b");
  comparison.set_state(v1::Comparison::DONE);
  for (const v1::ComparisonRow& row : rows) {
    if (row.verdict() == v1::PASS) {
      comparison.set_pass_count(comparison.pass_count() + 1);
    } else {
      comparison.set_fail_count(comparison.fail_count() + 1);
    }
  }
  std::string out;
  const auto writer =
      MakeMarkdownReport(/*allowed=*/false, [&out](std::string_view bytes) {
        out += bytes;
        return absl::OkStatus();
      });
  EXPECT_TRUE(writer->Begin(comparison).ok());
  for (const v1::ComparisonRow& row : rows) {
    EXPECT_TRUE(writer->Add(row).ok());
  }
  EXPECT_TRUE(writer->Finish().ok());
  return out;
}

TEST(MarkdownReportTest, HasNoTableIfEverythingPasses) {
  const std::string report = ReportOf({Row("good", v1::PASS)});
  EXPECT_THAT(report, HasSubstr("## PASS\n"));
  EXPECT_THAT(report, HasSubstr("| golden | a |"));
  EXPECT_THAT(report, Not(HasSubstr("good")));
}

TEST(MarkdownReportTest, ListsFailingRowsFirst) {
  std::vector<v1::ComparisonRow> rows(kMarkdownRowsMax,
                                      Row("idle", v1::SKIPPED, "no bytes"));
  rows.push_back(Row("bad", v1::FAIL, "differs"));
  rows.push_back(Row("good", v1::PASS));
  const std::string report = ReportOf(rows);
  const size_t bad = report.find("| fail | bad |");
  ASSERT_NE(bad, std::string::npos);
  EXPECT_LT(bad, report.find("| skipped | idle |"));
  EXPECT_THAT(report, HasSubstr("\nFurther rows that do not pass: 1\n"));
  EXPECT_THAT(report, Not(HasSubstr("good")));
}

TEST(MarkdownReportTest, TextsOfTheRunsAreNoMarkup) {
  const std::string report = ReportOf(
      {Row("[x](http://a)|`@all` <img src=x>\n# h", v1::FAIL, "**b**")});
  EXPECT_THAT(report,
              HasSubstr("\\[x\\]\\(http\\://a\\)\\|\\``@`all\\` \\<img src=x\\>"
                        "\\\\n\\# h"));
  EXPECT_THAT(report, HasSubstr("\\*\\*b\\*\\*"));
}

}  // namespace
}  // namespace msitd::ask
