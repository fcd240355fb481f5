// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/report_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "client/ctl/msprobe_verdict.h"
#include "client/ctl/report_page.h"
#include "client/ctl/row_histograms.h"
#include "client/ctl/xlsx_report.h"
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

// Numbers of msprobe's own tests.
TEST(MsprobeVerdictTest, DifferencesOfStatisticsAreThoseOfMsprobe) {
  const auto texts = [](double target, double golden) {
    const StatisticsDifference d = DifferenceOf(target, golden, true);
    return std::pair(d.difference, d.relative);
  };
  using Texts = std::pair<std::string, std::string>;
  EXPECT_EQ(texts(10, 5), Texts("5.0", "100.0%"));
  EXPECT_EQ(texts(5, 0), Texts("5.0", "inf"));
  EXPECT_EQ(texts(5, 5), Texts("0", "0"));
  EXPECT_EQ(texts(kNan, 1), Texts("Nan", "Nan"));
  EXPECT_EQ(texts(kNan, kNan), Texts("0", "0"));
  EXPECT_EQ(texts(kInf, 1), Texts("inf", "inf"));
  EXPECT_EQ(texts(kInf, -kInf), Texts("inf", "inf"));
  EXPECT_EQ(texts(-kInf, 1), Texts("-inf", "-inf"));
  EXPECT_EQ(texts(1, kInf), Texts("-inf", "-inf"));
  EXPECT_EQ(texts(1, -kInf), Texts("inf", "inf"));
  EXPECT_EQ(texts(139.625, 3.061628818511963),
            Texts("136.56337118148804", "4460.480981749501%"));
  EXPECT_EQ(DifferenceOf(1, std::nullopt, false).relative, "N/A");
  EXPECT_EQ(DifferenceOf(std::nullopt, std::nullopt, true).difference, "0");
  EXPECT_EQ(DifferenceOf(std::nullopt, std::nullopt, false).difference, "N/A");
}

// A sum of which samples were read: it has metrics, but no statistics.
TEST(MsprobeReportTest, ASumOfSamplesHasItsCosineAndNoStatistics) {
  v1::ComparisonRow row;
  row.set_io(v1::IO_OUTPUT);
  row.set_verdict(v1::FAIL);
  row.set_sampled(true);
  for (v1::ComparedTensor* side :
       {row.mutable_golden(), row.mutable_target()}) {
    side->set_dtype(v1::D_TYPE_FLOAT32);
    side->add_shape(2);
  }
  for (const auto& [name, value] :
       {std::pair("cosine", 0.25), std::pair("within_1_permille", 0.5)}) {
    v1::MetricValue& metric = *row.add_metrics();
    metric.set_metric(name);
    metric.set_value(value);
  }
  const auto report = [&row](MsprobeMode mode) {
    std::string out;
    const auto writer = MakeMsprobeReport(mode, [&out](std::string_view bytes) {
      out += bytes;
      return absl::OkStatus();
    });
    EXPECT_TRUE(writer->Begin(v1::Comparison()).ok());
    EXPECT_TRUE(writer->Add(row).ok());
    EXPECT_TRUE(writer->Finish().ok());
    return out;
  };
  EXPECT_THAT(report(MsprobeMode::kAll), HasSubstr(",0.25,"));
  EXPECT_THAT(report(MsprobeMode::kSummary),
              HasSubstr(",N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,"));
}

v1::ComparisonRow RowOf(v1::Io io, double target_norm, double golden_norm) {
  v1::ComparisonRow row;
  row.set_io(io);
  row.mutable_target()->set_nan_count(0);
  row.mutable_golden()->set_nan_count(0);
  row.mutable_target()->set_l2_norm(target_norm);
  row.mutable_golden()->set_l2_norm(golden_norm);
  return row;
}

TEST(MsprobeVerdictTest, ANormThatJumpsFromInputToOutputIsAnError) {
  const auto jump =
      JudgeEntry({RowOf(v1::IO_INPUT, 1.05, 1), RowOf(v1::IO_OUTPUT, 1.6, 1)},
                 MsprobeMode::kSummary);
  EXPECT_EQ(jump[0].result, "pass");
  EXPECT_EQ(jump[1].result, "error");
  EXPECT_THAT(jump[1].messages, HasSubstr("NormRelativeErr"));
  const auto steady =
      JudgeEntry({RowOf(v1::IO_INPUT, 1.2, 1), RowOf(v1::IO_OUTPUT, 1.6, 1)},
                 MsprobeMode::kSummary);
  EXPECT_EQ(steady[1].result, "pass");
}

TEST(MsprobeVerdictTest, ARatioThatFallsIsAnErrorOfTheFirstOutput) {
  const auto row = [](v1::Io io, double share, double cosine) {
    v1::ComparisonRow out = RowOf(io, 1, 1);
    v1::MetricValue* metric = out.add_metrics();
    metric->set_metric("within_1_permille");
    metric->set_value(share);
    metric = out.add_metrics();
    metric->set_metric("cosine");
    metric->set_value(cosine);
    return out;
  };
  const auto verdicts =
      JudgeEntry({row(v1::IO_INPUT, 0.95, 1), row(v1::IO_OUTPUT, 0.05, 1),
                  row(v1::IO_OUTPUT, 0.5, 0.8)},
                 MsprobeMode::kAll);
  EXPECT_EQ(verdicts[0].result, "pass");
  EXPECT_EQ(verdicts[1].result, "error");
  EXPECT_THAT(verdicts[1].messages, HasSubstr("cosine falls"));
  EXPECT_EQ(verdicts[2].result, "pass");
}

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
  const auto writer =
      MakeHtmlReport({"nl2"}, histograms, [&out](std::string_view bytes) {
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
