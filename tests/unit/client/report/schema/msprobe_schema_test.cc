// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/report/report_writer.h"
#include "client/report/schema/msprobe_statistics.h"
#include "client/report/schema/msprobe_verdict.h"
#include "client/report/schema/schemas.h"
#include "client/report/table/sinks.h"

namespace msitd::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// The maximum of a float64 tensor, of which it is exact.
MsprobeStatistic Max(double value) {
  v1::ComparedTensor side;
  side.set_dtype(v1::D_TYPE_FLOAT64);
  side.add_shape(3);
  side.set_nan_count(std::isnan(value) ? 1 : 0);
  side.set_max(value);
  return StatisticsOf(side)[0];
}

// Numbers of msprobe's own tests.
TEST(MsprobeStatisticsTest, DifferencesAreThoseOfMsprobe) {
  const auto texts = [](double target, double golden) {
    const StatisticsDifference d = DifferenceOf(Max(target), Max(golden));
    return std::pair(TextOf(d.difference), TextOf(d.relative));
  };
  using Texts = std::pair<std::string, std::string>;
  EXPECT_EQ(texts(10, 5), Texts("5.0", "100.0%"));
  EXPECT_EQ(texts(5, 0), Texts("5.0", "inf"));
  EXPECT_EQ(texts(5, 5), Texts("0", "0"));
  EXPECT_EQ(texts(0.0, -0.0), Texts("0.0", "inf"));
  EXPECT_EQ(texts(kNan, 1), Texts("Nan", "Nan"));
  EXPECT_EQ(texts(kNan, kNan), Texts("0", "0"));
  EXPECT_EQ(texts(kInf, 1), Texts("inf", "inf"));
  EXPECT_EQ(texts(kInf, -kInf), Texts("inf", "inf"));
  EXPECT_EQ(texts(-kInf, 1), Texts("-inf", "-inf"));
  EXPECT_EQ(texts(1, kInf), Texts("-inf", "-inf"));
  EXPECT_EQ(texts(1, -kInf), Texts("inf", "inf"));
  EXPECT_EQ(texts(139.625, 3.061628818511963),
            Texts("136.56337118148804", "4460.480981749501%"));
}

TEST(MsprobeStatisticsTest, WhatIsNotKnownDiffersFromNothing) {
  const MsprobeStatistic absent;
  EXPECT_EQ(TextOf(DifferenceOf(Max(1), absent).relative), "N/A");
  EXPECT_EQ(TextOf(DifferenceOf(absent, absent).difference), "N/A");
  // `None` is a text there.
  v1::ComparedTensor side;
  side.set_dtype(v1::D_TYPE_FLOAT64);
  side.add_shape(3);
  side.set_nan_count(0);
  const MsprobeStatistic none = StatisticsOf(side)[2];
  EXPECT_EQ(TextOf(none.cell), "None");
  EXPECT_EQ(TextOf(DifferenceOf(none, none).difference), "0");
  EXPECT_EQ(TextOf(DifferenceOf(Max(1), none).difference), "Diff");
}

std::string ReportOf(const v1::ComparisonRow& row, MsprobeMode mode,
                     std::string* note = nullptr) {
  std::string out;
  const auto writer = MakeTableReport(
      MakeMsprobeSchema(mode, {}), MakeCsvSink([&out](std::string_view bytes) {
        out += bytes;
        return absl::OkStatus();
      }));
  EXPECT_TRUE(writer->Begin(v1::Comparison()).ok());
  EXPECT_TRUE(writer->Add(row).ok());
  const auto finished = writer->Finish();
  EXPECT_TRUE(finished.ok());
  if (note != nullptr && finished.ok()) *note = *finished;
  return out;
}

v1::ComparisonRow RowOfShapes(std::vector<int64_t> target,
                              std::vector<int64_t> golden) {
  v1::ComparisonRow row;
  row.set_op("op");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  row.set_verdict(v1::FAIL);
  row.mutable_golden()->set_dtype(v1::D_TYPE_FLOAT32);
  row.mutable_target()->set_dtype(v1::D_TYPE_FLOAT32);
  for (const int64_t dim : target) row.mutable_target()->add_shape(dim);
  for (const int64_t dim : golden) row.mutable_golden()->add_shape(dim);
  return row;
}

void AddMetric(v1::ComparisonRow& row, const char* name, double value) {
  v1::MetricValue& metric = *row.add_metrics();
  metric.set_metric(name);
  metric.set_value(value);
}

// A sum of which samples were read: it has metrics, but no statistics.
TEST(MsprobeSchemaTest, ASumOfSamplesHasItsCosineAndNoStatistics) {
  v1::ComparisonRow row = RowOfShapes({2}, {2});
  row.set_sampled(true);
  AddMetric(row, "msprobe_cosine", 0.25);
  AddMetric(row, "msprobe_max_abs", 0.5);
  EXPECT_THAT(ReportOf(row, MsprobeMode::kAll), HasSubstr(",0.25,"));
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr(",N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,"));
}

TEST(MsprobeSchemaTest, CellsHave12DecimalsWhateverTheirSize) {
  v1::ComparisonRow row = RowOfShapes({2}, {2});
  AddMetric(row, "msprobe_max_abs", 123456788.123);
  AddMetric(row, "msprobe_max_rel", 2.0 / 3e4);
  AddMetric(row, "msprobe_within_1_permille", 2.0 / 3);
  EXPECT_THAT(ReportOf(row, MsprobeMode::kAll),
              HasSubstr(",123456788.123,6.6666667e-05,0.666666666667,"));
}

// Whatever was not measured is said to be that, and nothing else.
TEST(MsprobeSchemaTest, RowsWithoutMetricsSayWhy) {
  std::string note;
  EXPECT_THAT(ReportOf(RowOfShapes({2}, {3}), MsprobeMode::kAll, &note),
              HasSubstr(",shape unmatched,"));
  EXPECT_EQ(note, "");
  // Only the hashes are left.
  EXPECT_THAT(ReportOf(RowOfShapes({2}, {2}), MsprobeMode::kAll, &note),
              HasSubstr(",unsupported,"));
  EXPECT_EQ(note, "");
  EXPECT_THAT(ReportOf(RowOfShapes({1, 2}, {2}), MsprobeMode::kAll, &note),
              HasSubstr(",shape unmatched,"));
  EXPECT_THAT(note, HasSubstr("--shapes squeeze"));
}

MsprobeRow RowOf(const char* name, const char* norm_relative) {
  MsprobeRow row;
  row.name = name;
  row.is_matched = true;
  row.norm_relative = norm_relative;
  return row;
}

constexpr char kInput[] = "Tensor.pow.0.forward.input.0";
constexpr char kOutput[] = "Tensor.pow.0.forward.output.0";

// Of the entry with these inputs and outputs: the result of the last row.
std::string Judged(std::vector<MsprobeRow> rows,
                   MsprobeMode mode = MsprobeMode::kSummary) {
  return JudgeEntry(rows, mode).back().result;
}

TEST(MsprobeVerdictTest, ANormThatJumpsFromInputToOutputIsAnError) {
  const std::vector<MsprobeRow> rows = {RowOf(kInput, "5.0%"),
                                        RowOf(kOutput, "60.0%")};
  const auto jump = JudgeEntry(rows, MsprobeMode::kSummary);
  EXPECT_EQ(jump[0].result, "pass");
  EXPECT_EQ(jump[1].result, "error");
  EXPECT_THAT(jump[1].messages, HasSubstr("NormRelativeErr is above"));
  EXPECT_EQ(Judged({RowOf(kInput, "20.0%"), RowOf(kOutput, "60.0%")}), "pass");
  EXPECT_EQ(Judged({RowOf(kInput, "2.0%"), RowOf(kOutput, "30.0%")}),
            "warning");
}

// Only an output's own `inf` counts, and no `Nan`.
TEST(MsprobeVerdictTest, AnInfiniteRatioIsAJumpOfTheOutputOnly) {
  EXPECT_EQ(Judged({RowOf(kInput, "0"), RowOf(kOutput, "inf")}), "error");
  EXPECT_EQ(Judged({RowOf(kInput, "0"), RowOf(kOutput, "-inf")}), "error");
  EXPECT_EQ(Judged({RowOf(kInput, "inf"), RowOf(kOutput, "60.0%")}), "error");
  EXPECT_EQ(Judged({RowOf(kInput, "0"), RowOf(kOutput, "Nan")}), "pass");
  EXPECT_EQ(Judged({RowOf(kInput, "0"), RowOf(kOutput, "Diff")}), "pass");
  EXPECT_EQ(Judged({RowOf(kInput, "0"), RowOf(kOutput, "N/A")}), "pass");
}

MsprobeRow RowOfRatios(const char* name, double share, double cosine) {
  MsprobeRow row = RowOf(name, "");
  row.within_1_permille = share;
  row.cosine = cosine;
  return row;
}

TEST(MsprobeVerdictTest, ARatioThatFallsIsAnErrorOfTheFirstOutput) {
  const std::vector<MsprobeRow> rows = {
      RowOfRatios(kInput, 0.95, 1), RowOfRatios(kOutput, 0.05, 1),
      RowOfRatios("Tensor.pow.0.forward.output.1", 0.5, 0.8)};
  const auto verdicts = JudgeEntry(rows, MsprobeMode::kAll);
  EXPECT_EQ(verdicts[0].result, "pass");
  EXPECT_EQ(verdicts[1].result, "error");
  EXPECT_THAT(verdicts[1].messages, HasSubstr("cosine falls"));
  EXPECT_EQ(verdicts[2].result, "pass");
}

// Without an input that has the figures they are taken for 1.
TEST(MsprobeVerdictTest, AnEntryWithoutInputsIsJudgedAsIfTheyWereEqual) {
  EXPECT_EQ(Judged({RowOfRatios(kOutput, 0.05, 1)}, MsprobeMode::kAll),
            "error");
  EXPECT_EQ(Judged({RowOf(kInput, ""), RowOfRatios(kOutput, 0.5, 0.8)},
                   MsprobeMode::kAll),
            "warning");
}

TEST(MsprobeVerdictTest, SomeOpsAreNotJudged) {
  for (const char* op : {"to", "empty_like", "__setitem__"}) {
    const std::string entry = std::string("Tensor.") + op + ".0.forward.";
    EXPECT_EQ(Judged({RowOf((entry + "input.0").c_str(), "0"),
                      RowOf((entry + "output.0").c_str(), "inf")}),
              "pass")
        << op;
  }
  MsprobeRow output =
      RowOf("Distributed.all_to_all_single.0.forward.output.0", "inf");
  MsprobeRow input =
      RowOf("Distributed.all_to_all_single.0.forward.input.0", "0");
  input.shapes_differ = output.dtypes_differ = true;
  const auto verdicts =
      JudgeEntry(std::vector{input, output}, MsprobeMode::kSummary);
  EXPECT_EQ(verdicts[0].result, "pass");
  EXPECT_EQ(verdicts[1].messages, "[\"The dtypes differ.\"]");
}

TEST(MsprobeVerdictTest, HashesOfOneSideOnlyAreAWarning) {
  MsprobeRow row = RowOf(kOutput, "");
  row.target_hash = "a";
  EXPECT_EQ(Judged({row}, MsprobeMode::kMd5), "warning");
  row.golden_hash = "b";
  EXPECT_EQ(Judged({row}, MsprobeMode::kMd5), "error");
  row.golden_hash = "a";
  EXPECT_EQ(Judged({row}, MsprobeMode::kMd5), "pass");
}

}  // namespace
}  // namespace msitd::ctl
