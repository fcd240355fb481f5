// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/ci/junit_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Comparison DoneComparison() {
  v1::Comparison out;
  out.set_name("c-000001");
  out.set_golden_run("a");
  out.set_target_run("b");
  out.set_state(v1::Comparison::DONE);
  out.set_pass_count(1);
  return out;
}

v1::ComparisonRow Row(const std::string& op, v1::Verdict verdict,
                      const std::string& reason = "") {
  v1::ComparisonRow out;
  out.set_op(op);
  out.set_verdict(verdict);
  out.set_reason(reason);
  return out;
}

std::string ReportOf(const v1::Comparison& comparison,
                     const std::vector<v1::ComparisonRow>& rows,
                     Allowed allowed = false) {
  std::string out;
  const auto writer = MakeJunitReport(allowed, [&out](std::string_view bytes) {
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

TEST(JunitReportTest, AnOpHasTheWorstResultOfItsRows) {
  v1::Comparison comparison = DoneComparison();
  comparison.set_fail_count(1);
  const std::string report = ReportOf(
      comparison, {Row("good", v1::PASS), Row("bad", v1::PASS),
                   Row("bad", v1::FAIL, "nl2 too large"),
                   Row("bad", v1::SKIPPED, "not read"),
                   Row("idle", v1::SKIPPED, "no bytes"), Row("idle", v1::PASS),
                   Row("lost", v1::UNMATCHED, "no counterpart")});
  EXPECT_THAT(report, HasSubstr("name=\"good\"/>"));
  EXPECT_THAT(report,
              HasSubstr("<failure message=\"1 of 3 rows: nl2 too large\">"));
  EXPECT_THAT(report, HasSubstr("<skipped message=\"1 of 2 rows: no bytes\">"));
  EXPECT_THAT(report, HasSubstr("<failure message=\"no counterpart\">"));
  EXPECT_THAT(report, HasSubstr("tests=\"5\" failures=\"3\" errors=\"0\""));
  EXPECT_THAT(report, HasSubstr("skipped=\"1\""));
}

TEST(JunitReportTest, WhatWasNotComparedIsNoSuccess) {
  v1::Comparison comparison = DoneComparison();
  comparison.set_skipped_count(1);
  comparison.set_partial(true);
  const std::vector<v1::ComparisonRow> rows = {Row("good", v1::PASS),
                                               Row("idle", v1::SKIPPED, "?")};
  EXPECT_THAT(ReportOf(comparison, rows), HasSubstr("errors=\"1\""));
  EXPECT_THAT(ReportOf(comparison, rows, /*allowed=*/true),
              HasSubstr("failures=\"0\" errors=\"0\""));
}

TEST(JunitReportTest, AComparisonWithoutResultIsAnError) {
  v1::Comparison comparison = DoneComparison();
  comparison.set_state(v1::Comparison::FAILED);
  comparison.set_error("the disk failed");
  const std::string report = ReportOf(comparison, {});
  EXPECT_THAT(report, HasSubstr("failures=\"0\" errors=\"1\""));
  EXPECT_THAT(report, HasSubstr("the disk failed"));
}

TEST(JunitReportTest, TextsOfTheRunsAreNoMarkup) {
  const std::string report = ReportOf(
      DoneComparison(),
      {Row("</testsuite><x a=\"1\"/>&\x01\xff", v1::FAIL, "]]>\"<\n")});
  EXPECT_THAT(report, HasSubstr("&lt;/testsuite&gt;&lt;x a=&quot;1&quot;/"
                                "&gt;&amp;\\x01\\xff"));
  EXPECT_THAT(report, HasSubstr("]]&gt;&quot;&lt;\\n"));
  EXPECT_THAT(report, Not(HasSubstr("<x")));
}

TEST(JunitReportTest, FurtherOpsAndRowsAreCounted) {
  std::vector<v1::ComparisonRow> rows;
  for (size_t i = 0; i < kJunitOpsMax + 5; ++i) {
    rows.push_back(Row(fmt::format("op{}", i), v1::PASS));
  }
  rows.push_back(Row("late", v1::FAIL, "differs"));
  for (size_t i = 0; i < kJunitRowsMax + 3; ++i) {
    rows.push_back(Row("op0", v1::FAIL, "differs"));
  }
  const std::string report = ReportOf(DoneComparison(), rows);
  EXPECT_THAT(report, HasSubstr("6 rows of further ops"));
  EXPECT_THAT(report, HasSubstr("1 of 6 rows: differs"));
  EXPECT_THAT(report, HasSubstr("3 more\n"));
}

}  // namespace
}  // namespace msitd::ask
