// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/torch_file.h"

#include <gtest/gtest.h>

#include "protos/status/status.h"
#include "tests/unit/client/foreign/formats/read_all.h"
#include "tests/unit/client/foreign/formats/zip_bytes.h"

namespace msitd::formats {
namespace {

using std::string_literals::operator""s;

// Returns a pickle of a column of a 2 x 3 matrix.
std::string Column(const std::string& storage) {
  return "\x80\x02"
         "ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\n" +
         storage +
         "\n\x8c\x01"
         "0\x8c\x05npu:1K\x06tQK\x01K\x02\x85K\x03\x85\x88NtR.";
}

std::string Saved(const std::string& pickle) {
  return ZipOf({{"x/data.pkl", pickle},
                {"x/data/0", BytesOf<int16_t>({1, 2, 3, 4, 5, 6})}});
}

TEST(TorchFileTest, ATensorIsAViewOfAStorage) {
  const auto file = OpenText(Saved(Column("ShortStorage")));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(FileKindName((*file)->kind()), "torch");
  const ForeignTensor* tensor = (*file)->Next();
  ASSERT_NE(tensor, nullptr);
  ASSERT_TRUE(tensor->problem.ok()) << tensor->problem;
  EXPECT_EQ(tensor->name, "");
  EXPECT_EQ(tensor->dtype, DType::kInt16);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(tensor->stored_type, "ShortStorage");
  EXPECT_EQ(tensor->stored_layout, "strided");
  EXPECT_EQ(tensor->attributes,
            (Attributes{{"device", "npu:1"}, {"requires_grad", "true"}}));
  EXPECT_EQ(*ReadAll(**file, 16), BytesOf<int16_t>({2, 5}));
}

TEST(TorchFileTest, AStorageOfAnUnknownClassIsRefused) {
  const auto file = OpenText(Saved(Column("EvilStorage")));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(Message(file.status()).find("torch.EvilStorage"),
            std::string_view::npos);
}

TEST(TorchFileTest, WhatIsNoTensorIsCounted) {
  const auto file = OpenText(Saved("\x80\x02](K\x01N]e."));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensor_count(), 0);
  EXPECT_EQ((*file)->attributes(), (Attributes{{"values", "2"}}));
}

TEST(TorchFileTest, TagsOfADumperAreAttributes) {
  const auto file = OpenText(
      Saved("\x80\x02}(\x8c\x05valueN\x8c\x04meta}(\x8c\x04name\x8c\x01"
            "x\x8c\x04stepK\x07\x8c\x01"
            "f\x88\x8c\x01p}\x8c\x01qJ\xff\xff\xff\xffs\x8c\x01nNuu."s));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->attributes(), (Attributes{{"name", "x"},
                                               {"step", "7"},
                                               {"f", "true"},
                                               {"p.q", "-1"},
                                               {"values", "1"}}));
}

TEST(TorchFileTest, AFolderInAFolderIsNotIt) {
  EXPECT_FALSE(
      OpenText(ZipOf({{"x/y/data.pkl", Column("ShortStorage")}})).ok());
  EXPECT_TRUE(OpenText(ZipOf({{"data.pkl", "\x80\x02N."}})).ok());
}

}  // namespace
}  // namespace msitd::formats
