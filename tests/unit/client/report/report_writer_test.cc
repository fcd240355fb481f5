// SPDX-License-Identifier: Apache-2.0
#include "client/report/report_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "client/report/report_page.h"
#include "client/report/row_histograms.h"
#include "client/report/xlsx_report.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(ReportWriterTest, FloatsAreWrittenAsPythonDoes) {
  EXPECT_EQ(PythonFloat(1), "1.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(0.1F), "0.10000000149011612");
  EXPECT_EQ(PythonFloat(1e-5), "1e-05");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(1.5e300), "1.5e+300");
  EXPECT_EQ(PythonFloat(kInf), "inf");
  EXPECT_EQ(PythonFloat(kNan), "nan");
}

TEST(ReportWriterTest, CellsAreQuotedOnlyWhereTheyMustBe) {
  EXPECT_EQ(CsvCell("a b"), "a b");
  EXPECT_EQ(CsvCell("[2, 3]"), "\"[2, 3]\"");
  EXPECT_EQ(CsvCell("say \"x\""), "\"say \"\"x\"\"\"");
}

// A workbook of so many rows, on sheets of three rows with their heading.
absl::StatusOr<std::string> WorkbookOf(int row_count) {
  std::string out;
  const auto writer = MakeXlsxReport(
      [](ReportSink lines) { return MakeCsvReport({}, std::move(lines)); },
      [&out](std::string_view bytes) {
        out += bytes;
        return absl::OkStatus();
      },
      3);
  absl::Status status = writer->Begin(v1::Comparison());
  for (int i = 0; i < row_count && status.ok(); ++i) {
    status = writer->Add(v1::ComparisonRow());
  }
  if (!status.ok()) return status;
  const auto note = writer->Finish();
  if (!note.ok()) return note.status();
  return out;
}

TEST(XlsxReportTest, RowsThatDoNotFitGoOnInTheNextSheet) {
  const auto one = WorkbookOf(2);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(*one, HasSubstr("xl/worksheets/sheet1.xml"));
  EXPECT_THAT(*one, Not(HasSubstr("xl/worksheets/sheet2.xml")));
  const auto three = WorkbookOf(5);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT(*three, HasSubstr("xl/worksheets/sheet3.xml"));
}

TEST(XlsxReportTest, ADirectoryThatTakesNoFileIsNamed) {
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

TEST(XlsxReportTest, MoreRowsThanTheSheetsHoldAreRefused) {
  EXPECT_TRUE(WorkbookOf(2 * kSheetsMax).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(WorkbookOf(2 * kSheetsMax + 1).status()));
}

TEST(HtmlReportTest, ThePageHasOnePlaceForItsData) {
  const std::string_view page = ReportPage();
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  const size_t place = page.find("%DATA%");
  ASSERT_NE(place, std::string_view::npos);
  EXPECT_EQ(page.find("%DATA%", place + 1), std::string_view::npos);
}

v1::Metric MetricNamed(const std::string& name) {
  v1::Metric metric;
  metric.set_name(name);
  return metric;
}

TEST(HtmlReportTest, TheDaemonSaysWhichMetricsAreBetterTheHigher) {
  std::string out;
  const RowHistograms histograms(0);
  v1::Metric closeness = MetricNamed("closeness");
  closeness.set_direction(v1::Metric::HIGHER_IS_BETTER);
  v1::Metric gain = MetricNamed("gain");
  gain.set_direction(v1::Metric::HIGHER_IS_BETTER);
  gain.set_unit("dB");
  const auto writer =
      MakeHtmlReport({closeness, gain, MetricNamed("nl2")}, histograms,
                     [&out](std::string_view bytes) {
                       out += bytes;
                       return absl::OkStatus();
                     });
  ASSERT_TRUE(writer->Begin(v1::Comparison()).ok());
  EXPECT_THAT(out, HasSubstr("{\"metrics\":[\"closeness\",\"gain\",\"nl2\"],"
                             "\"higher\":[true,true,false],"
                             "\"units\":[\"\",\"dB\",\"\"],"));
}

TEST(HtmlReportTest, NoTextEndsTheData) {
  std::string out;
  const RowHistograms histograms(0);
  const auto writer = MakeHtmlReport({MetricNamed("nl2")}, histograms,
                                     [&out](std::string_view bytes) {
                                       out += bytes;
                                       return absl::OkStatus();
                                     });
  v1::Comparison comparison;
  comparison.set_golden_run("</script>");
  ASSERT_TRUE(writer->Begin(comparison).ok());
  v1::ComparisonRow row;
  row.set_op("</script>\n\"\\");
  v1::MetricValue* metric = row.add_metrics();
  metric->set_metric("nl2");
  metric->set_value(kInf);
  ASSERT_TRUE(writer->Add(row).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_THAT(out, HasSubstr("\\u003c/script>\\u000a\\\"\\\\"));
  EXPECT_THAT(out, HasSubstr(",\"inf\"]"));
  size_t ends = 0;
  for (size_t at = out.find("</script>"); at != std::string::npos;
       at = out.find("</script>", at + 1)) {
    ++ends;
  }
  EXPECT_EQ(ends, 2u);
}

}  // namespace
}  // namespace msitd::ctl
