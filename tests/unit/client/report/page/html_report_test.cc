// SPDX-License-Identifier: Apache-2.0
#include "client/report/page/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "client/report/page/report_page.h"
#include "client/report/page/row_histograms.h"

namespace msitd::ctl {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(HtmlReportTest, ThePageHasOnePlaceForItsData) {
  const std::string_view page = ReportPage();
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  const size_t place = page.find("%DATA%");
  ASSERT_NE(place, std::string_view::npos);
  EXPECT_EQ(page.find("%DATA%", place + 1), std::string_view::npos);
}

TEST(HtmlReportTest, NoTextEndsTheData) {
  std::string out;
  const RowHistograms histograms(0);
  v1::Metric nl2;
  nl2.set_name("nl2");
  const auto writer =
      MakeHtmlReport({nl2}, histograms, [&out](std::string_view bytes) {
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
