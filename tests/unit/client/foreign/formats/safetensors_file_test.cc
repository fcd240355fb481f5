// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/safetensors_file.h"

#include <gtest/gtest.h>

#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

std::string FileOf(const std::string& head, const std::string& bytes) {
  return BytesOf<uint64_t>({head.size()}) + head + bytes;
}

TEST(SafetensorsFileTest, TensorsComeByName) {
  const auto file = OpenText(
      FileOf(R"({"__metadata__":{"format":"pt"},)"
             R"("b":{"dtype":"BF16","shape":[2,1],"data_offsets":[2,6]},)"
             R"("a":{"data_offsets":[0,2],"shape":[],"dtype":"I16"},)"
             R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[6,6]},)"
             R"("f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}   )",
             "aab\x01\x02\x03"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->kind(), FileKind::kSafetensors);
  EXPECT_EQ((*file)->attributes(), (Attributes{{"format", "pt"}}));
  const ForeignTensor* tensor = (*file)->Next();
  EXPECT_EQ(tensor->name, "b");
  EXPECT_EQ(tensor->dtype, DType::kBfloat16);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(*ReadAll(**file, 100), "b\x01\x02\x03");
  tensor = (*file)->Next();
  EXPECT_EQ(tensor->name, "a");
  EXPECT_TRUE(tensor->shape.empty());
  EXPECT_EQ(*ReadAll(**file, 100), "aa");
  tensor = (*file)->Next();
  EXPECT_EQ(tensor->bytes, 0);
  EXPECT_EQ(*ReadAll(**file, 100), "");
  tensor = (*file)->Next();
  EXPECT_EQ(tensor->dtype, DType::kFloat4E2m1fn);
  EXPECT_EQ(*ReadAll(**file, 100), "\x01\x06\x01\x06");
  EXPECT_EQ((*file)->Next(), nullptr);
}

// Returns the status of reading a file whose head has one tensor.
absl::Status StatusOf(const std::string& row, const std::string& bytes) {
  const auto file = OpenText(FileOf("{\"a\":" + row + "}", bytes));
  if (!file.ok()) return file.status();
  return (*file)->Next()->problem;
}

TEST(SafetensorsFileTest, AWrongTensorHasAReason) {
  EXPECT_TRUE(
      StatusOf(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", "ab")
          .ok());
  for (const char* row :
       {R"({"dtype":"U8","shape":[2],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[2],"data_offsets":[2,0]})",
        R"({"dtype":"U8","shape":[2],"data_offsets":[0]})",
        R"({"dtype":"U8","shape":[2]})", R"({})",
        R"({"dtype":"Q8","shape":[2],"data_offsets":[0,2]})",
        R"({"dtype":"U8","shape":[2],"data_offsets":[1,3]})",
        R"({"dtype":"U8","shape":[2],)"
        R"("data_offsets":[18446744073709551613,18446744073709551615]})",
        R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,2]})",
        R"({"dtype":"U8","shape":[4294967296,4294967296],)"
        R"("data_offsets":[0,0]})"}) {
    const auto file =
        OpenText(FileOf("{\"a\":" + std::string(row) + "}", "ab"));
    ASSERT_TRUE(file.ok()) << row;
    EXPECT_FALSE((*file)->Next()->problem.ok()) << row;
    EXPECT_FALSE(ReadAll(**file, 100).ok());
  }
}

TEST(SafetensorsFileTest, WrongHeadsAreRefused) {
  EXPECT_TRUE(OpenText(FileOf("{}", "")).ok());
  for (const std::string& head :
       {std::string("{"), std::string("{}}"), std::string("{\"a\":1}"),
        std::string("{\"a\":[]}"), std::string("{\"a\":\"x\"}"),
        std::string("{\"a\":{\"shape\":[-1]}}"),
        std::string("{\"a\":{\"shape\":[1.5]}}"),
        std::string("{\"a\":{\"shape\":[[1]]}}"),
        std::string("{\"a\":{\"shape\":[\"1\"]}}"),
        std::string("{\"a\":{\"shape\":1}}"),
        std::string("{\"a\":{\"data_offsets\":[1,2,3]}}"),
        std::string("{\"a\":{\"b\":{}}}"), std::string("{\"a\":null}"),
        std::string("{\"__metadata__\":{\"a\":[]}}"),
        "{\"a\":" + std::string(100000, '[')}) {
    EXPECT_EQ(OpenText(FileOf(head, "ab")).status().code(),
              absl::StatusCode::kInvalidArgument)
        << head.substr(0, 50);
  }
}

TEST(SafetensorsFileTest, HeadsAreBounded) {
  EXPECT_EQ(OpenText(BytesOf<uint64_t>({100}) + "{}").status().code(),
            absl::StatusCode::kDataLoss);
  std::string many = "{";
  for (uint64_t i = 0; i <= kTensorsMax; ++i) many += "\"\":{},";
  many.back() = '}';
  EXPECT_EQ(OpenText(FileOf(many, "")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace msitd::formats
