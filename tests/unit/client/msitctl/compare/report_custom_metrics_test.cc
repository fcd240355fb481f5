// SPDX-License-Identifier: Apache-2.0

// Tests of custom metrics in all reports, and in the columns of tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "client/ask/print/column.h"
#include "client/ask/report/page/html_report.h"
#include "client/ask/report/page/row_histograms.h"
#include "client/ask/report/report_writer.h"
#include "client/ask/report/schema/msitd_schema.h"
#include "client/ask/report/table/sinks.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "protos/base/report_column.h"

namespace msitd::msitctl {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using Maker =
    std::function<std::unique_ptr<ask::ReportWriter>(ask::ReportSink)>;

v1::Comparison ComparisonWith(const std::vector<std::string>& names) {
  v1::Comparison comparison;
  comparison.set_name("c-000001");
  for (const std::string& name : names) comparison.add_custom_metrics(name);
  return comparison;
}

v1::ComparisonRow RowWith(const std::string& metric, double value,
                          const std::string& text) {
  v1::ComparisonRow row;
  row.set_io(v1::IO_OUTPUT);
  row.set_verdict(v1::SKIPPED);
  row.set_reason("bytes");
  for (v1::ComparedTensor* side :
       {row.mutable_golden(), row.mutable_target()}) {
    side->set_dtype(v1::D_TYPE_FLOAT32);
    side->add_shape(2);
  }
  v1::CustomMetric& custom = *row.add_custom_metrics();
  custom.set_metric(metric);
  custom.set_value(value);
  custom.set_text(text);
  return row;
}

std::vector<std::string> LinesOf(const Maker& make,
                                 const v1::Comparison& comparison,
                                 const std::vector<v1::ComparisonRow>& rows) {
  std::string out;
  const auto writer = make([&out](std::string_view bytes) {
    out += bytes;
    return absl::OkStatus();
  });
  EXPECT_TRUE(writer->Begin(comparison).ok());
  for (const v1::ComparisonRow& row : rows) EXPECT_TRUE(writer->Add(row).ok());
  EXPECT_TRUE(writer->Finish().ok());
  std::vector<std::string> lines(1);
  for (const char c : out) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

std::unique_ptr<ask::ReportWriter> MakeCsv(ask::ReportSink sink) {
  return ask::MakeTableReport(ask::MakeMsitdSchema({"cosine"}),
                              ask::MakeCsvSink(std::move(sink)));
}
std::unique_ptr<ask::ReportWriter> MakeMsit(ask::ReportSink sink) {
  return ask::MakeTableReport(report::MakeMsitSchema(true),
                              ask::MakeCsvSink(std::move(sink)));
}
std::unique_ptr<ask::ReportWriter> MakeMsprobe(ask::ReportSink sink) {
  return ask::MakeTableReport(
      report::MakeMsprobeSchema({.mode = report::MsprobeMode::kMd5}),
      ask::MakeCsvSink(std::move(sink)));
}

TEST(ReportCustomMetricsTest, CsvHasValueAndTextOfEachBehindTheOthers) {
  const auto lines = LinesOf(
      MakeCsv, ComparisonWith({"b.x", "a"}),
      {RowWith("a", 0.1, "x, y"), RowWith("b.x", -1, ""), v1::ComparisonRow()});
  EXPECT_THAT(lines[0], EndsWith(",cosine,b.x,b.x:text,a,a:text"));
  EXPECT_THAT(lines[1], EndsWith(",,,0.1,\"x, y\""));
  EXPECT_THAT(lines[2], EndsWith(",-1,,,"));
  EXPECT_THAT(lines[3], EndsWith(",,,,"));
}

TEST(ReportCustomMetricsTest, CompatibleReportsHaveThemBehindTheirColumns) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const v1::Comparison comparison = ComparisonWith({"a"});
  const std::vector<v1::ComparisonRow> rows = {
      RowWith("a", 2, "why"), RowWith("a", inf, ""), RowWith("a", nan, "")};
  const auto msit = LinesOf(MakeMsit, comparison, rows);
  EXPECT_THAT(msit[0], EndsWith(",cmp_fail_reason,a"));
  EXPECT_THAT(msit[1], EndsWith(",bytes why,2.0"));
  EXPECT_THAT(msit[2], EndsWith(",bytes,inf"));
  EXPECT_THAT(msit[3], EndsWith(",bytes,"));
  const auto msprobe = LinesOf(MakeMsprobe, comparison, rows);
  EXPECT_THAT(msprobe[0], EndsWith(",Err_message,a,a:text"));
  EXPECT_THAT(msprobe[1], EndsWith(",2.0,why"));
  EXPECT_THAT(msprobe[2], EndsWith(", inf,"));
}

TEST(ReportCustomMetricsTest, WithoutAnyNothingIsAdded) {
  const std::vector<v1::ComparisonRow> rows = {RowWith("gone", 2, "why")};
  const v1::Comparison comparison = ComparisonWith({});
  EXPECT_THAT(LinesOf(MakeCsv, comparison, rows)[0], EndsWith(",cosine"));
  const auto msit = LinesOf(MakeMsit, comparison, rows);
  EXPECT_THAT(msit[0], EndsWith(",cmp_fail_reason"));
  EXPECT_THAT(msit[1], EndsWith(",bytes"));
  EXPECT_THAT(LinesOf(MakeMsprobe, comparison, rows)[0],
              EndsWith(",Err_message"));
  EXPECT_THAT(VerdictHeader(comparison, Seconds(1), false, {}),
              Not(HasSubstr("custom")));
}

TEST(ReportCustomMetricsTest, ThePageHasValuesAndTexts) {
  const ask::RowHistograms histograms(0);
  const auto lines = LinesOf(
      [&](ask::ReportSink sink) {
        ask::PageFacts facts;
        facts.metrics.emplace_back().set_name("cosine");
        facts.metrics.back().set_direction(v1::Metric::HIGHER_IS_BETTER);
        return ask::MakeHtmlReport(facts, histograms, std::move(sink));
      },
      ComparisonWith({"a"}), {RowWith("a", 0.5, "</script>")});
  std::string page;
  for (const std::string& line : lines) page += line;
  EXPECT_THAT(page, HasSubstr("{\"metrics\":[\"cosine\",\"a\"],\"higher\":"
                              "[true,false],\"units\":[\"\",\"\"],"
                              "\"custom\":[\"a\"]"));
  EXPECT_THAT(page, HasSubstr(",null,0.5,"));
  EXPECT_THAT(page, HasSubstr("\"\\u003c/script>\""));
}

// Returns the cells of a heading that could be names of metrics.
std::vector<std::string> NamesIn(const std::string& heading) {
  std::vector<std::string> names;
  std::stringstream cells(heading);
  for (std::string cell; std::getline(cells, cell, ',');) {
    if (cell.find_first_of(" /:") == std::string::npos) names.push_back(cell);
  }
  return names;
}

TEST(ReportCustomMetricsTest, NoColumnOfAReportIsANameForThem) {
  const auto msprobe = [](report::MsprobeMode mode) {
    return [mode](ask::ReportSink sink) {
      return ask::MakeTableReport(report::MakeMsprobeSchema({.mode = mode}),
                                  ask::MakeCsvSink(std::move(sink)));
    };
  };
  const Maker all[] = {[](ask::ReportSink sink) {
                         return ask::MakeTableReport(
                             ask::MakeMsitdSchema({}),
                             ask::MakeCsvSink(std::move(sink)));
                       },
                       MakeMsit, msprobe(report::MsprobeMode::kAll),
                       msprobe(report::MsprobeMode::kSummary),
                       msprobe(report::MsprobeMode::kMd5)};
  for (const Maker& make : all) {
    const auto names = NamesIn(LinesOf(make, ComparisonWith({}), {})[0]);
    EXPECT_GE(names.size(), 2U);
    for (const std::string& name : names)
      EXPECT_TRUE(IsReportColumn(name)) << name;
  }
  const auto& row = *v1::ComparisonRow::descriptor();
  for (int i = 0; i < row.field_count(); ++i) {
    EXPECT_TRUE(IsReportColumn(row.field(i)->name())) << row.field(i)->name();
  }
  EXPECT_FALSE(IsReportColumn("angle"));
}

TEST(ReportCustomMetricsTest, TheHeaderNamesThem) {
  EXPECT_THAT(VerdictHeader(ComparisonWith({"a", "b"}), Seconds(1), false, {}),
              HasSubstr("\ncustom metrics    a, b\n"));
}

TEST(ReportCustomMetricsTest, ColumnsHaveValueTextOrBoth) {
  const auto& root = *v1::ComparisonRow::descriptor();
  const auto cells = [&root](const v1::ComparisonRow& row) {
    const auto value = *ask::FieldPath::Parse(root, "custom_metrics.m.x");
    const auto text = *ask::FieldPath::Parse(root, "custom_metrics.m.x:text");
    EXPECT_TRUE(value.is_number());
    EXPECT_FALSE(text.is_number());
    return std::vector<std::string>{
        value.Get(row, ask::CellStyle::kHuman).value_or("-"),
        value.Get(row, ask::CellStyle::kExact).value_or("-"),
        text.Get(row, ask::CellStyle::kExact).value_or("-")};
  };
  v1::ComparisonRow row = RowWith("m.x", 0.123456789, "so");
  EXPECT_THAT(cells(row), ElementsAre("0.123457 so", "0.123456789", "so"));
  row.mutable_custom_metrics(0)->clear_text();
  EXPECT_THAT(cells(row), ElementsAre("0.123457", "0.123456789", ""));
  row = RowWith("m.x", 0, "why not");
  row.mutable_custom_metrics(0)->clear_value();
  EXPECT_THAT(cells(row), ElementsAre("why not", "-", "why not"));
  EXPECT_THAT(cells(RowWith("other", 1, "")), ElementsAre("-", "-", "-"));

  const auto all = *ask::FieldPath::Parse(root, "custom_metrics");
  EXPECT_EQ(all.Get(row, ask::CellStyle::kHuman), "m.x: why not");
}

}  // namespace
}  // namespace msitd::msitctl
