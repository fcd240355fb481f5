// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/report/report_writer.h"
#include "client/ask/report/table/sinks.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_statistics.h"
#include "client/foreign/report/msprobe_verdict.h"

namespace msitd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// Returns the maximum of a float64 tensor, which represents it exactly.
MsprobeStatistic Max(double value) {
  v1::ComparedTensor side;
  side.set_dtype(v1::D_TYPE_FLOAT64);
  side.add_shape(3);
  side.set_nan_count(std::isnan(value) ? 1 : 0);
  side.set_max(value);
  return StatisticsOf(side)[0];
}

// The numbers are from msprobe's own tests.
TEST(MsprobeStatisticsTest, DifferencesAreThoseOfMsprobe) {
  const auto texts = [](double target, double golden) {
    const StatisticsDifference d = DifferenceOf(Max(target), Max(golden));
    return std::pair(ask::TextOf(d.difference), ask::TextOf(d.relative));
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
  EXPECT_EQ(ask::TextOf(DifferenceOf(Max(1), absent).relative), "N/A");
  EXPECT_EQ(ask::TextOf(DifferenceOf(absent, absent).difference), "N/A");
  // `None` is a text in this cell.
  v1::ComparedTensor side;
  side.set_dtype(v1::D_TYPE_FLOAT64);
  side.add_shape(3);
  side.set_nan_count(0);
  const MsprobeStatistic none = StatisticsOf(side)[2];
  EXPECT_EQ(ask::TextOf(none.cell), "None");
  EXPECT_EQ(ask::TextOf(DifferenceOf(none, none).difference), "0");
  EXPECT_EQ(ask::TextOf(DifferenceOf(Max(1), none).difference), "Diff");
}

// Returns the statistics of a tensor of three elements that another tool
// recorded.
v1::ComparedTensor Recorded(v1::DType dtype, std::string text) {
  v1::ComparedTensor side;
  side.set_kind(v1::RECORD_KIND_STATISTICS);
  side.set_dtype(dtype);
  side.add_shape(3);
  side.set_value(std::move(text));
  return side;
}

std::vector<std::string> Texts(const MsprobeStatistics& statistics) {
  std::vector<std::string> out;
  for (const MsprobeStatistic& one : statistics) {
    out.push_back(ask::TextOf(one.cell));
  }
  return out;
}

TEST(MsprobeStatisticsTest, WhatAnotherToolRecordedIsShownAsItIs) {
  const auto texts = [](v1::DType dtype, std::string text) {
    return Texts(StatisticsOf(Recorded(dtype, std::move(text))));
  };
  EXPECT_THAT(
      texts(v1::D_TYPE_FLOAT32,
            R"({"max": 1e-05, "min": "-inf", "mean": "nan", "l2_norm": 2.5})"),
      ElementsAre("1e-05", " -inf", "Nan", "2.5"));
  // Integer dtypes have no mean. An integer keeps all its digits.
  EXPECT_THAT(
      texts(v1::D_TYPE_INT64, R"({"max": 9223372036854775807, "min": -3})"),
      ElementsAre("9223372036854775807", "-3", "None", "None"));
  // Early releases converted it to float.
  EXPECT_THAT(texts(v1::D_TYPE_INT64, R"({"max": 3, "min": 1, "mean": 1.5})"),
              ElementsAre("3", "1", "1.5", "None"));
  EXPECT_THAT(texts(v1::D_TYPE_BOOL, R"({"max": true, "min": false})"),
              ElementsAre("True", "False", "None", "None"));
  EXPECT_THAT(texts(v1::D_TYPE_FLOAT32, R"({"max": 1, "crc32": "0badcafe"})"),
              ElementsAre("1.0", "N/A", "N/A", "N/A"));
  EXPECT_THAT(texts(v1::D_TYPE_COMPLEX64, R"({"max": 2.5})"),
              ElementsAre("2.5", "N/A", "N/A", "None"));
}

std::string ReportOf(const v1::ComparisonRow& row, MsprobeMode mode,
                     std::string* note = nullptr, bool is_compat = false) {
  std::string out;
  const auto writer = ask::MakeTableReport(
      MakeMsprobeSchema({.mode = mode, .is_compat = is_compat}),
      ask::MakeCsvSink([&out](std::string_view bytes) {
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

// A sum whose samples were read has metrics, but no statistics.
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

// A row that was not measured says so, and contains no other result.
TEST(MsprobeSchemaTest, RowsWithoutMetricsSayWhy) {
  std::string note;
  EXPECT_THAT(ReportOf(RowOfShapes({2}, {3}), MsprobeMode::kAll, &note),
              HasSubstr(",shape unmatched,"));
  EXPECT_EQ(note, "");
  // Only the hashes are available.
  EXPECT_THAT(ReportOf(RowOfShapes({2}, {2}), MsprobeMode::kAll, &note),
              HasSubstr(",unsupported,"));
  EXPECT_EQ(note, "");
  EXPECT_THAT(ReportOf(RowOfShapes({1, 2}, {2}), MsprobeMode::kAll, &note),
              HasSubstr(",shape unmatched,"));
  EXPECT_THAT(note, HasSubstr("--shapes squeeze"));
}

v1::ComparisonRow RowOfStatistics(const std::string& target,
                                  const std::string& golden,
                                  v1::Verdict verdict) {
  v1::ComparisonRow row;
  row.set_op("op");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  row.set_verdict(verdict);
  row.set_reason("max: target 4, golden \"2\"");
  *row.mutable_target() = Recorded(v1::D_TYPE_FLOAT32, target);
  if (!golden.empty()) {
    *row.mutable_golden() = Recorded(v1::D_TYPE_FLOAT32, golden);
  }
  return row;
}

constexpr char kFour[] =
    R"({"max": 4.0, "min": 1.0, "mean": 2.0, "l2_norm": 5.0})";
constexpr char kTwo[] =
    R"({"max": 2.0, "min": 1.0, "mean": 1.5, "l2_norm": 4.5})";

TEST(MsprobeSchemaTest, ListedPairsHaveACounterpartWhateverTheirTypes) {
  v1::ComparisonRow row = RowOfStatistics(kFour, kFour, v1::PASS);
  row.mutable_golden()->set_dtype(v1::D_TYPE_INT64);
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr("torch.float32,N/A"));
  row.set_pairing("stated in the data mapping");
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr("torch.float32,torch.int64"));
}

// As msprobe 26.2.0 names the leaves of debug.json.
TEST(MsprobeSchemaTest, SavedValuesHaveTheirOwnNames) {
  v1::ComparisonRow row = RowOfStatistics(kFour, kFour, v1::PASS);
  row.set_op("x_grad");
  row.set_io(v1::IO_STATE);
  row.set_call(1);
  row.set_index("");
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr("x_grad.1.debug,x_grad.1.debug,"));
  row.set_index("b.0");
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr("x_grad.1.debug.b.0,x_grad.1.debug.b.0,"));
}

TEST(MsprobeSchemaTest, StatisticsOfBothSidesHaveDifferencesAndAResult) {
  const std::string text =
      ReportOf(RowOfStatistics(kFour, kTwo, v1::FAIL), MsprobeMode::kSummary);
  EXPECT_THAT(text, HasSubstr(",2.0,0,0.5,0.5,100.0%,0,33.33333333333333%,"
                              "11.11111111111111%,4.0,1.0,2.0,5.0,2.0,1.0,1.5,"
                              "4.5,"));
  EXPECT_THAT(text, HasSubstr(",warning,"));
  // The rules detect a norm that grows, even if the comparison passes.
  EXPECT_THAT(
      ReportOf(RowOfStatistics(kFour, kTwo, v1::PASS), MsprobeMode::kSummary),
      HasSubstr("grows"));
  EXPECT_THAT(
      ReportOf(RowOfStatistics(kTwo, kTwo, v1::PASS), MsprobeMode::kSummary),
      HasSubstr(",0,0,0,0,0,0,0,0,2.0,1.0,1.5,4.5,2.0,1.0,1.5,4.5,"
                "N/A,pass,[]"));
}

// A difference that msprobe's rules do not detect is not reported as `pass`.
TEST(MsprobeSchemaTest, StatisticsThatDoNotPassAreNeverPassed) {
  const auto result = [](const v1::ComparisonRow& row, MsprobeMode mode,
                         bool is_compat) {
    const std::string text = ReportOf(row, mode, nullptr, is_compat);
    EXPECT_NE(text.find(",warning,") == std::string::npos,
              text.find(",pass,") == std::string::npos)
        << text;
    return text.find(",pass,") == std::string::npos ? "warning" : "pass";
  };
  v1::ComparisonRow input = RowOfStatistics(kFour, kTwo, v1::FAIL);
  input.set_io(v1::IO_INPUT);
  const v1::ComparisonRow rows[] = {
      input,
      RowOfStatistics("{}", "{}", v1::SKIPPED),
      RowOfStatistics(R"({"max": 1.0})", R"({"min": 1.0})", v1::SKIPPED),
      RowOfStatistics(kFour, "", v1::UNMATCHED),
  };
  for (const v1::ComparisonRow& row : rows) {
    for (const MsprobeMode mode : {MsprobeMode::kSummary, MsprobeMode::kAll}) {
      EXPECT_EQ(result(row, mode, false), "warning") << row.DebugString();
      EXPECT_EQ(result(row, mode, true), "pass") << row.DebugString();
    }
  }
  // The rules have the statistics that they need, although the policy cannot
  // decide with them.
  input.set_verdict(v1::SKIPPED);
  EXPECT_EQ(result(input, MsprobeMode::kSummary, false), "pass");
  EXPECT_EQ(result(input, MsprobeMode::kAll, false), "warning");
  input.set_verdict(v1::FAIL);
  EXPECT_THAT(ReportOf(input, MsprobeMode::kSummary),
              HasSubstr(R"(fails: max: target 4, golden \""2\"")"));
}

constexpr MsprobeMode kModes[] = {MsprobeMode::kAll, MsprobeMode::kSummary,
                                  MsprobeMode::kMd5};

// Returns a row of tensors whose bytes, and thus summaries, are known.
v1::ComparisonRow RowOfTensors(const char* op, double target, double golden,
                               v1::Verdict verdict) {
  v1::ComparisonRow row = RowOfShapes({2}, {2});
  row.set_op(op);
  row.set_verdict(verdict);
  row.set_reason("why");
  row.mutable_target()->set_max(target);
  row.mutable_golden()->set_max(golden);
  for (v1::ComparedTensor* side :
       {row.mutable_target(), row.mutable_golden()}) {
    side->set_nan_count(0);
    side->set_hash("a");
  }
  AddMetric(row, "msprobe_cosine", 1);
  AddMetric(row, "msprobe_max_abs", 0);
  return row;
}

TEST(MsprobeSchemaTest, RowsThatFailAreNoPassWhateverTheRulesIgnore) {
  for (const char* op : {"Tensor.to", "Tensor.add"}) {
    for (const MsprobeMode mode : kModes) {
      for (const v1::Io io : {v1::IO_INPUT, v1::IO_OUTPUT}) {
        v1::ComparisonRow row = RowOfTensors(op, 1, 900, v1::FAIL);
        row.set_io(io);
        EXPECT_THAT(ReportOf(row, mode),
                    HasSubstr(R"(,warning,"[""The comparison fails: why""]")"));
        EXPECT_THAT(ReportOf(row, mode, nullptr, true), HasSubstr(",pass,[]"));
        row.set_verdict(v1::PASS);
        EXPECT_THAT(ReportOf(row, mode), HasSubstr(",pass,[]"));
      }
    }
  }
  v1::ComparisonRow input =
      RowOfTensors("Distributed.all_to_all_single", 1, 900, v1::FAIL);
  input.set_io(v1::IO_INPUT);
  EXPECT_THAT(ReportOf(input, MsprobeMode::kSummary), HasSubstr(",warning,"));
}

// The rules decide only about the statistics that they use.
TEST(MsprobeSchemaTest, SkippedRowsAreAPassOnlyIfTheRulesLookAtThem) {
  const auto of = [](const char* op, MsprobeMode mode) {
    v1::ComparisonRow row = RowOfTensors(op, 1, 1, v1::SKIPPED);
    row.set_io(v1::IO_INPUT);
    return ReportOf(row, mode);
  };
  EXPECT_THAT(of("Tensor.add", MsprobeMode::kAll), HasSubstr(",warning,"));
  EXPECT_THAT(of("Tensor.add", MsprobeMode::kSummary), HasSubstr(",pass,"));
  EXPECT_THAT(of("Tensor.add", MsprobeMode::kMd5), HasSubstr(",pass,"));
  for (const MsprobeMode mode : kModes) {
    EXPECT_THAT(of("Tensor.to", mode), HasSubstr(",warning,"));
  }
}

TEST(MsprobeSchemaTest, NothingKnownOfEitherSideIsNoPass) {
  constexpr char kNulls[] =
      R"({"max": null, "min": null, "mean": null, "l2_norm": null})";
  constexpr char kMax[] = R"({"max": 1.0})";
  constexpr char kMin[] = R"({"min": 1.0})";
  const auto of = [](const char* target, const char* golden, v1::DType dtype,
                     v1::Verdict verdict) {
    v1::ComparisonRow row = RowOfStatistics(target, golden, verdict);
    row.mutable_target()->set_dtype(dtype);
    row.mutable_golden()->set_dtype(dtype);
    return ReportOf(row, MsprobeMode::kSummary);
  };
  constexpr auto kFp8 = v1::D_TYPE_FLOAT8_E4M3FN;
  EXPECT_THAT(of(kNulls, kNulls, kFp8, v1::SKIPPED), HasSubstr(",warning,"));
  EXPECT_THAT(of("{}", "{}", kFp8, v1::SKIPPED), HasSubstr(",warning,"));
  EXPECT_THAT(of(kMax, kMin, kFp8, v1::SKIPPED), HasSubstr(",warning,"));
  EXPECT_THAT(of(kMax, kMax, kFp8, v1::SKIPPED), HasSubstr(",pass,"));
  EXPECT_THAT(of("{}", "{}", kFp8, v1::PASS), HasSubstr(",pass,"));
  constexpr char kTruths[] = R"({"max": true, "min": false})";
  EXPECT_THAT(of(kTruths, kTruths, v1::D_TYPE_BOOL, v1::SKIPPED),
              HasSubstr(",pass,"));
}

TEST(MsprobeSchemaTest, TensorsWithoutACounterpartAreNoPass) {
  for (const char* op : {"Tensor.to", "Tensor.add"}) {
    v1::ComparisonRow row = RowOfTensors(op, 1, 1, v1::UNMATCHED);
    row.clear_golden();
    for (const MsprobeMode mode : kModes) {
      std::string note;
      EXPECT_THAT(ReportOf(row, mode, &note), HasSubstr(",warning,"));
      EXPECT_EQ(note, "");
    }
    std::string note;
    EXPECT_THAT(ReportOf(row, MsprobeMode::kAll, &note, true),
                HasSubstr(",pass,"));
    EXPECT_THAT(note, HasSubstr("1 rows without a counterpart"));
  }
}

TEST(MsprobeSchemaTest, StatisticsAreNoMetricsOfElements) {
  v1::ComparisonRow row = RowOfStatistics(kTwo, kTwo, v1::PASS);
  AddMetric(row, "msprobe_max_abs", 0);
  AddMetric(row, "msprobe_cosine", 1);
  EXPECT_THAT(ReportOf(row, MsprobeMode::kAll),
              HasSubstr("unsupported,unsupported,unsupported,unsupported,"
                        "unsupported,unsupported,2.0,"));
}

TEST(MsprobeSchemaTest, ChecksumsOfStatisticsAreHashes) {
  constexpr char kCrc[] = R"({"max": 1.0, "crc32": "0badcafe"})";
  constexpr char kOther[] = R"({"max": 1.0, "crc32": "deadbeef"})";
  EXPECT_THAT(
      ReportOf(RowOfStatistics(kCrc, kCrc, v1::PASS), MsprobeMode::kMd5),
      HasSubstr(",0badcafe,0badcafe,N/A,pass,"));
  EXPECT_THAT(
      ReportOf(RowOfStatistics(kOther, kCrc, v1::PASS), MsprobeMode::kMd5),
      HasSubstr(",deadbeef,0badcafe,N/A,error,"));
  EXPECT_THAT(ReportOf(RowOfStatistics(R"({"xor": "0x0000000000000001"})",
                                       R"({"xor": 1})", v1::SKIPPED),
                       MsprobeMode::kMd5),
              HasSubstr(",0x0000000000000001,1,N/A,error,"));
  EXPECT_THAT(ReportOf(RowOfStatistics(R"({"xor": 1})", kCrc, v1::SKIPPED),
                       MsprobeMode::kMd5),
              HasSubstr("of two kinds"));
  // Missing checksums are never equal.
  EXPECT_THAT(
      ReportOf(RowOfStatistics(kTwo, kTwo, v1::PASS), MsprobeMode::kMd5),
      HasSubstr(",N/A,N/A,N/A,warning,"));
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

// Returns the result of the last row for an entry with these inputs and
// outputs.
std::string Judged(std::vector<MsprobeRow> rows,
                   MsprobeMode mode = MsprobeMode::kSummary) {
  return JudgeEntry(rows, mode, DefaultMsprobeRules()).back().result;
}

TEST(MsprobeVerdictTest, ANormThatJumpsFromInputToOutputIsAnError) {
  const std::vector<MsprobeRow> rows = {RowOf(kInput, "5.0%"),
                                        RowOf(kOutput, "60.0%")};
  const auto jump =
      JudgeEntry(rows, MsprobeMode::kSummary, DefaultMsprobeRules());
  EXPECT_EQ(jump[0].result, "pass");
  EXPECT_EQ(jump[1].result, "error");
  EXPECT_THAT(jump[1].messages, HasSubstr("NormRelativeErr is above"));
  EXPECT_EQ(Judged({RowOf(kInput, "20.0%"), RowOf(kOutput, "60.0%")}), "pass");
  EXPECT_EQ(Judged({RowOf(kInput, "2.0%"), RowOf(kOutput, "30.0%")}),
            "warning");
}

// Only `inf` in the output itself counts, and `Nan` does not.
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
  const auto verdicts =
      JudgeEntry(rows, MsprobeMode::kAll, DefaultMsprobeRules());
  EXPECT_EQ(verdicts[0].result, "pass");
  EXPECT_EQ(verdicts[1].result, "error");
  EXPECT_THAT(verdicts[1].messages, HasSubstr("cosine falls"));
  EXPECT_EQ(verdicts[2].result, "pass");
}

// If no input has the figures, they are taken to be 1.
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
  const auto verdicts = JudgeEntry(
      std::vector{input, output}, MsprobeMode::kSummary, DefaultMsprobeRules());
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
}  // namespace msitd::report
