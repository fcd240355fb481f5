// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_stats_file.h"

#include <gtest/gtest.h>

#include "client/foreign/formats/format_limits.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

constexpr char kTitles[] =
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,"
    "Avg Value,Count,Nan Count,Negative Inf Count,Positive Inf Count\n";

TEST(GeStatsFileTest, ARowIsATensorWithoutBytes) {
  const auto file = OpenText(std::string(kTitles) +
                             "Input,0,24,DT_FLOAT,ND,2x3,1.5,-2e-05,0.25,6,1,"
                             "0,0\n"
                             "Output,11,8,DT_INT64,FRACTAL_NZ,-,"
                             "9223372036854775807,-nan,inf,1,0,0,2\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(FileKindName((*file)->kind()), "ge_stats");
  const ForeignTensor* tensor = (*file)->Next();
  ASSERT_NE(tensor, nullptr);
  EXPECT_TRUE(tensor->is_statistics);
  EXPECT_EQ(tensor->problem.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*file)->Read({}).status(), tensor->problem);
  EXPECT_EQ(tensor->io, Io::kInput);
  EXPECT_EQ(tensor->index, "0");
  EXPECT_EQ(tensor->dtype, DType::kFloat32);
  EXPECT_EQ(tensor->stored_type, "FLOAT");
  EXPECT_EQ(tensor->stored_layout, "ND");
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensor->attributes, (Attributes{{"max", "1.5"},
                                            {"min", "-2e-05"},
                                            {"mean", "0.25"},
                                            {"count", "6"},
                                            {"nan_count", "1"},
                                            {"neg_inf_count", "0"},
                                            {"pos_inf_count", "0"}}));
  tensor = (*file)->Next();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->io, Io::kOutput);
  EXPECT_EQ(tensor->index, "11");
  EXPECT_EQ(tensor->dtype, DType::kInt64);
  EXPECT_TRUE(tensor->shape.empty());
  EXPECT_EQ(tensor->attributes.at("max"), "9223372036854775807");
  EXPECT_EQ(tensor->attributes.at("min"), "nan");
  EXPECT_EQ(tensor->attributes.at("mean"), "inf");
  EXPECT_EQ((*file)->Next(), nullptr);
}

TEST(GeStatsFileTest, ColumnsCanBeFewerAndOthers) {
  const auto file = OpenText(
      "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,L2Norm "
      "Value,MD5 Value\r\nInput,0,2,DT_BF16,ND,1,NA,3,abc\r\n");
  ASSERT_TRUE(file.ok()) << file.status();
  const ForeignTensor* tensor = (*file)->Next();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, DType::kBfloat16);
  EXPECT_EQ(tensor->attributes, (Attributes{{"l2_norm", "3"}}));
}

TEST(GeStatsFileTest, ARowWithoutNumbersIsOfAnAbsentTensor) {
  for (const char* numbers : {",,,,,,", "NA,NA,NA,NA,NA,NA,NA"}) {
    const auto file = OpenText(std::string(kTitles) +
                               "Input,1,24,DT_FLOAT,ND,2x3," + numbers + "\n");
    ASSERT_TRUE(file.ok()) << file.status();
    const ForeignTensor* tensor = (*file)->Next();
    ASSERT_NE(tensor, nullptr);
    EXPECT_TRUE(tensor->is_statistics);
    EXPECT_TRUE(tensor->attributes.empty());
    EXPECT_EQ(tensor->dtype, DType::kFloat32);
    EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  }
}

TEST(GeStatsFileTest, WrongRowsHaveAReason) {
  const std::vector<std::string> rows = {
      "Input,0,24,DT_FLOAT,ND,2x3,1,1,1,1,1,1",
      "Input,0,24,DT_FLOAT,ND,2x3,1,1,1,1,1,1,1,1",
      "Other,0,24,DT_FLOAT,ND,2x3,1,1,1,1,1,1,1",
      "Input,-1,24,DT_FLOAT,ND,2x3,1,1,1,1,1,1,1",
      "Input,,24,DT_FLOAT,ND,2x3,1,1,1,1,1,1,1",
      "Input,0,24,DT_FLOAT,ND,2x,1,1,1,1,1,1,1",
      "Input,0,24,DT_FLOAT,ND,2x-3,1,1,1,1,1,1,1",
      "Input,0,24,DT_FLOAT,ND,2x3,one,1,1,1,1,1,1",
      "Input,0,24,DT_FLOAT,ND,2x3,0x10,1,1,1,1,1,1",
      "Input,0,24,DT_FLOAT,ND,2x3,01.,1,1,1,1,1,1",
  };
  for (const std::string& row : rows) {
    const auto file = OpenText(kTitles + row + "\n");
    ASSERT_TRUE(file.ok()) << row;
    const ForeignTensor* tensor = (*file)->Next();
    ASSERT_NE(tensor, nullptr) << row;
    EXPECT_EQ(tensor->problem.code(), absl::StatusCode::kInvalidArgument)
        << row;
    EXPECT_FALSE(tensor->is_statistics) << row;
  }
}

TEST(GeStatsFileTest, WrongTablesAreRefused) {
  EXPECT_FALSE(OpenText("Input/Output,Index,Data Size\n").ok());
  EXPECT_FALSE(OpenText("Input/Output,Index," + std::string(1000, ',')).ok());
  std::string rows = kTitles;
  for (uint64_t i = 0; i <= kTensorsMax; ++i) rows += "x\n";
  EXPECT_EQ(OpenText(rows).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace msitd::formats
