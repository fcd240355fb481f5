// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/ask/report/report_writer.h"
#include "client/ask/report/table/sinks.h"
#include "client/foreign/report/foreign_schemas.h"

namespace msitd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ComparedTensor Value(v1::RecordKind kind, std::string text,
                         v1::DType dtype = v1::D_TYPE_UNSPECIFIED) {
  v1::ComparedTensor out;
  out.set_kind(kind);
  out.set_dtype(dtype);
  out.set_value(std::move(text));
  return out;
}

v1::ComparedTensor Int(std::string text) {
  return Value(v1::RECORD_KIND_NUMBER, std::move(text), v1::D_TYPE_INT64);
}

v1::ComparedTensor Float(std::string text) {
  return Value(v1::RECORD_KIND_NUMBER, std::move(text), v1::D_TYPE_FLOAT64);
}

v1::ComparedTensor Text(std::string text) {
  return Value(v1::RECORD_KIND_TEXT, std::move(text));
}

v1::ComparedTensor Other(std::string text) {
  return Value(v1::RECORD_KIND_OTHER, std::move(text));
}

// Returns dtype, shape, first statistic and checksum.
std::vector<std::string> ColumnsOf(const v1::ComparedTensor& side,
                                   const char* index = "0") {
  const MsprobeValue value = MsprobeValueOf(side, index);
  return {value.dtype, value.shape, ask::TextOf(value.statistics[0].cell),
          value.checksum};
}

// The expected columns are those of msprobe 26.2.0.
TEST(MsprobeValueTest, ColumnsAreThoseOfMsprobe) {
  EXPECT_THAT(ColumnsOf(Int("3")),
              ElementsAre("<class 'int'>", "[]", "3", "6dd28e9b"));
  EXPECT_THAT(ColumnsOf(Other("1000000000000000000000000000000")),
              ElementsAre("<class 'int'>", "[]",
                          "1000000000000000000000000000000", "f9fd3027"));
  EXPECT_THAT(ColumnsOf(Float("1e-05")),
              ElementsAre("<class 'float'>", "[]", "1e-05", "effb4679"));
  EXPECT_THAT(ColumnsOf(Float("nan")),
              ElementsAre("<class 'float'>", "[]", "Nan", "6be42981"));
  EXPECT_THAT(ColumnsOf(Float("-inf")),
              ElementsAre("<class 'float'>", "[]", " -inf", "6bb5da14"));
  EXPECT_THAT(ColumnsOf(Value(v1::RECORD_KIND_NUMBER, "True", v1::D_TYPE_BOOL)),
              ElementsAre("<class 'bool'>", "[]", "True", "5dcee3b3"));
  EXPECT_THAT(ColumnsOf(Text("none")),
              ElementsAre("<class 'str'>", "[]", "none", "7f9000cf"));
  EXPECT_THAT(ColumnsOf(Text("")),
              ElementsAre("<class 'str'>", "[]", "", "00000000"));
  EXPECT_THAT(ColumnsOf(Value(v1::RECORD_KIND_NONE, "None")),
              ElementsAre("N/A", "N/A", "None", "N/A"));
  EXPECT_THAT(ColumnsOf(Value(v1::RECORD_KIND_DTYPE, "torch.float32")),
              ElementsAre("<class 'str'>", "[]", "torch.float32", "d8ca9648"));
  EXPECT_THAT(ColumnsOf(Other("torch.Size([2, 3])")),
              ElementsAre("torch.Size", "[2, 3]", "None", "3f72ac6e"));
  EXPECT_THAT(ColumnsOf(Other("slice(0, None, 2)")),
              ElementsAre("slice", "(3,)", "None", "c1004716"));
  EXPECT_THAT(ColumnsOf(Other("Ellipsis")),
              ElementsAre("ellipsis", "[]", "...", "1a43b61b"));
  EXPECT_THAT(ColumnsOf(Other("device(type='cuda', index=0)")),
              ElementsAre("<class 'str'>", "[]", "cuda:0", "f0b19c7e"));
  EXPECT_THAT(ColumnsOf(Other("torch.contiguous_format")),
              ElementsAre("<class 'NoneType'>", "[]", "None", "00000000"));
  EXPECT_THAT(ColumnsOf(Other("{'type': 'torch.ProcessGroup', 'group_ranks': "
                              "[0, 1], 'group_id': '67e9e248'}")),
              ElementsAre("torch.ProcessGroup", "[]", "[0, 1]", "[0, 1]"));
}

TEST(MsprobeValueTest, RanksAreTextsWithTheirType) {
  EXPECT_THAT(ColumnsOf(Int("2"), "src"), ElementsAre("int", "[]", "2", "2"));
  EXPECT_THAT(ColumnsOf(Int("2"), "0.group_dst"),
              ElementsAre("int", "[]", "2", "2"));
  EXPECT_THAT(ColumnsOf(Value(v1::RECORD_KIND_NONE, "None"), "src"),
              ElementsAre("N/A", "N/A", "None", "N/A"));
}

// A tool, a user or a damaged file may have recorded any text.
TEST(MsprobeValueTest, TextsThatLookLikeDescriptionsAreTexts) {
  for (const char* text :
       {"slice(", "slice()x", "torch.Size([", "torch.Size(3)", "device(type='",
        "device(type='cpu'x)", "{'type': ", "{'type': 3}", "[1, 2]", "Thing()",
        "torch.Size([[[[", "{'dtype': 1, 'shape': 2}"}) {
    EXPECT_EQ(MsprobeValueOf(Other(text), "0").dtype, "<class 'str'>") << text;
    EXPECT_FALSE(MsprobeValueOf(Other(text), "0").is_empty_container) << text;
  }
  EXPECT_TRUE(MsprobeValueOf(Other("[]"), "0").is_empty_container);
  EXPECT_TRUE(MsprobeValueOf(Other("{}"), "0").is_empty_container);
  // Descriptions without the expected members.
  EXPECT_EQ(MsprobeValueOf(Other("{'type': 'torch.ProcessGroup'}"), "0").dtype,
            "torch.ProcessGroup");
  EXPECT_EQ(MsprobeValueOf(Other("{'type': 'a', 'dtype': [], 'shape': 1}"), "0")
                .dtype,
            "[]");
}

std::string DifferenceText(const v1::ComparedTensor& target,
                           const v1::ComparedTensor& golden) {
  return ask::TextOf(DifferenceOf(MsprobeValueOf(target, "0").statistics[0],
                                  MsprobeValueOf(golden, "0").statistics[0])
                         .difference);
}

TEST(MsprobeValueTest, DifferencesAreThoseOfMsprobe) {
  EXPECT_EQ(DifferenceText(Int("3"), Int("2")), "1.0");
  EXPECT_EQ(DifferenceText(Text("2"), Text("1")), "1.0");
  EXPECT_EQ(DifferenceText(Text("tanh"), Text("none")), "Diff");
  EXPECT_EQ(DifferenceText(Text("cuda"), Text("cpu")), "N/A");
  EXPECT_EQ(DifferenceText(Text("other"), Text("cpu")), "Diff");
  EXPECT_EQ(DifferenceText(Float("-0.0"), Float("0.0")), "-0.0");
}

v1::ComparisonRow RowOf(const v1::ComparedTensor& target,
                        const std::optional<v1::ComparedTensor>& golden,
                        v1::Verdict verdict, v1::Io io = v1::IO_INPUT) {
  v1::ComparisonRow row;
  row.set_op("Torch.f");
  row.set_io(io);
  row.set_index("1");
  row.set_verdict(verdict);
  row.set_reason("why");
  *row.mutable_target() = target;
  if (golden.has_value()) *row.mutable_golden() = *golden;
  return row;
}

std::string ReportOf(const v1::ComparisonRow& row, MsprobeMode mode,
                     bool is_compat = true, std::string* note = nullptr,
                     const v1::Comparison& comparison = {}) {
  std::string out;
  const auto writer = ask::MakeTableReport(
      MakeMsprobeSchema({.mode = mode, .is_compat = is_compat}),
      ask::MakeCsvSink([&out](std::string_view bytes) {
        out += bytes;
        return absl::OkStatus();
      }));
  EXPECT_TRUE(writer->Begin(comparison).ok());
  EXPECT_TRUE(writer->Add(row).ok());
  const auto finished = writer->Finish();
  EXPECT_TRUE(finished.ok());
  if (note != nullptr && finished.ok()) *note = *finished;
  return out;
}

constexpr MsprobeMode kModes[] = {MsprobeMode::kAll, MsprobeMode::kSummary,
                                  MsprobeMode::kMd5};

TEST(MsprobeValueTest, ScalarsThatDifferAreAnError) {
  for (const MsprobeMode mode : kModes) {
    for (const bool is_compat : {false, true}) {
      const auto report = [&](const v1::ComparisonRow& row) {
        return ReportOf(row, mode, is_compat);
      };
      EXPECT_THAT(report(RowOf(Int("3"), Int("2"), v1::FAIL)),
                  HasSubstr(",error,"));
      EXPECT_THAT(report(RowOf(Text("a"), Text("b"), v1::FAIL)),
                  HasSubstr(",error,"));
      EXPECT_THAT(report(RowOf(Int("3"), Int("3"), v1::PASS)),
                  HasSubstr(",pass,[]"));
      // NaN is equal to NaN.
      EXPECT_THAT(report(RowOf(Float("nan"), Float("nan"), v1::PASS)),
                  HasSubstr(",pass,[]"));
    }
  }
}

// The rule does not apply to outputs and to types that do not match.
TEST(MsprobeValueTest, OtherScalarsPassOnlyInMsprobe) {
  const v1::ComparisonRow output =
      RowOf(Int("3"), Int("2"), v1::FAIL, v1::IO_OUTPUT);
  EXPECT_THAT(ReportOf(output, MsprobeMode::kAll), HasSubstr(",pass,[]"));
  EXPECT_THAT(ReportOf(output, MsprobeMode::kAll, false),
              HasSubstr(",warning,"));
  const v1::ComparisonRow types = RowOf(Float("2.0"), Int("2"), v1::FAIL);
  EXPECT_THAT(ReportOf(types, MsprobeMode::kSummary),
              HasSubstr("<class 'float'>,N/A,[],N/A,N/A,N/A,"));
  EXPECT_THAT(ReportOf(types, MsprobeMode::kSummary), HasSubstr(",pass,[]"));
  EXPECT_THAT(ReportOf(types, MsprobeMode::kSummary, false),
              HasSubstr(",warning,"));
}

TEST(MsprobeValueTest, EmptyContainersHaveNoRow) {
  std::string note;
  EXPECT_THAT(ReportOf(RowOf(Other("[]"), Other("[]"), v1::PASS),
                       MsprobeMode::kAll, true, &note),
              Not(HasSubstr("Torch.f")));
  EXPECT_THAT(note, HasSubstr("1 rows of empty lists and dicts"));
}

TEST(MsprobeValueTest, ValuesThatWereNotComparedAreNoted) {
  v1::Comparison comparison;
  comparison.set_target_left_out_count(7);
  std::string note;
  ReportOf(RowOf(Int("3"), Int("3"), v1::PASS), MsprobeMode::kAll, true, &note,
           comparison);
  EXPECT_THAT(note, HasSubstr("0 golden and 7 target values"));
}

v1::ComparedTensor Tensor(std::optional<bool> requires_grad) {
  v1::ComparedTensor out;
  out.set_dtype(v1::D_TYPE_FLOAT32);
  out.add_shape(2);
  out.set_nan_count(0);
  out.set_max(1);
  out.set_hash("a");
  if (requires_grad.has_value()) out.set_requires_grad(*requires_grad);
  return out;
}

TEST(MsprobeRequiresGradTest, DifferentValuesAreAnError) {
  for (const bool is_compat : {false, true}) {
    const auto report = [&](std::optional<bool> target,
                            std::optional<bool> golden, MsprobeMode mode) {
      return ReportOf(RowOf(Tensor(target), Tensor(golden), v1::PASS), mode,
                      is_compat);
    };
    for (const MsprobeMode mode : kModes) {
      const std::string equal = report(true, true, mode);
      EXPECT_THAT(equal, HasSubstr(",[2],[2],True,True,"));
      EXPECT_THAT(equal, HasSubstr(",True,pass,[]"));
      const std::string other = report(true, false, mode);
      EXPECT_THAT(other, HasSubstr(",[2],[2],True,False,"));
      // msprobe compares only the checksums in this mode.
      EXPECT_THAT(other,
                  HasSubstr(mode == MsprobeMode::kMd5 ? ",False,pass,[]"
                                                      : ",False,error,"));
    }
  }
}

TEST(MsprobeRequiresGradTest, WhatIsNotRecordedIsJudgedOnlyInMsprobe) {
  const v1::ComparisonRow row =
      RowOf(Tensor(true), Tensor(std::nullopt), v1::PASS);
  std::string note;
  const std::string own = ReportOf(row, MsprobeMode::kSummary, false, &note);
  EXPECT_THAT(own, HasSubstr(",True,N/A,"));
  EXPECT_THAT(own, HasSubstr(",N/A,pass,[]"));
  EXPECT_THAT(note, HasSubstr("1 rows have requires_grad on one side only"));
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary), HasSubstr(",False,error,"));
  const v1::ComparisonRow neither =
      RowOf(Tensor(std::nullopt), Tensor(std::nullopt), v1::PASS);
  EXPECT_THAT(ReportOf(neither, MsprobeMode::kSummary, false, &note),
              HasSubstr(",N/A,pass,[]"));
  EXPECT_EQ(note, "");
  EXPECT_THAT(ReportOf(neither, MsprobeMode::kSummary),
              HasSubstr(",True,pass,[]"));
}

v1::ComparedTensor Statistics(std::string text) {
  v1::ComparedTensor out = Tensor(false);
  out.set_kind(v1::RECORD_KIND_STATISTICS);
  out.clear_hash();
  out.set_value(std::move(text));
  return out;
}

TEST(MsprobeChecksumTest, OnlyMsprobePassesWhatHasNoChecksum) {
  const auto target = Statistics(R"({"max": 1.0, "crc32": "0badcafe"})");
  const auto golden = Statistics(R"({"max": 1.0})");
  const v1::ComparisonRow one = RowOf(target, golden, v1::PASS);
  EXPECT_THAT(ReportOf(one, MsprobeMode::kMd5, false), HasSubstr(",warning,"));
  EXPECT_THAT(ReportOf(one, MsprobeMode::kMd5),
              HasSubstr(",0badcafe,00000000,True,error,"));
  const v1::ComparisonRow none = RowOf(golden, golden, v1::PASS);
  EXPECT_THAT(ReportOf(none, MsprobeMode::kMd5, false), HasSubstr(",warning,"));
  EXPECT_THAT(ReportOf(none, MsprobeMode::kMd5),
              HasSubstr(",00000000,00000000,True,pass,"));
}

TEST(MsprobeChecksumTest, OtherChecksumsDoNotPassInSummary) {
  const v1::ComparisonRow row =
      RowOf(Statistics(R"({"max": 1.0, "min": 1.0, "mean": 1.0, "l2_norm": 1.0,
                           "crc32": "0badcafe"})"),
            Statistics(R"({"max": 1.0, "min": 1.0, "mean": 1.0, "l2_norm": 1.0,
                           "crc32": "deadbeef"})"),
            v1::SKIPPED);
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary, false),
              HasSubstr(",warning,"));
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary), HasSubstr(",pass,"));
}

TEST(MsprobeNameTest, KeywordTensorsHaveTheNamesOfTheirFiles) {
  v1::ComparisonRow row = RowOf(Tensor(true), Tensor(true), v1::PASS);
  row.set_index("mask");
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr("Torch.f.0.forward.kwargs.mask,Torch.f.0.forward."
                        "kwargs.mask,"));
  const auto statistics = Statistics(R"({"max": 1.0})");
  row = RowOf(statistics, statistics, v1::PASS);
  row.set_index("mask");
  EXPECT_THAT(ReportOf(row, MsprobeMode::kSummary),
              HasSubstr("Torch.f.0.forward.input.mask,"));
}

}  // namespace
}  // namespace msitd::report
