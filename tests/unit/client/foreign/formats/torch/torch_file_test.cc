// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/torch_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

// Returns a tensor without the end of its pickle.
std::string Tensor() {
  const std::string column = Column("ShortStorage");
  return column.substr(2, column.size() - 3);
}

std::vector<std::string> NamesIn(TensorFile& file) {
  std::vector<std::string> out;
  while (const ForeignTensor* tensor = file.Next()) {
    EXPECT_TRUE(tensor->problem.ok()) << tensor->problem;
    out.push_back(tensor->name);
  }
  return out;
}

TEST(TorchFileTest, ObjectsBesideTensorsAreNamed) {
  // {"x": tensor, "loss": scalar(dtype("f4").state, b"abcd"), "o": m.C(1)}
  const auto file = OpenText(
      Saved("\x80\x02}(\x8c\x01x" + Tensor() +
            "\x8c\x04losscnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n"
            "\x8c\x02"
            "f4\x85RK\x03\x85"
            "bC\x04"
            "abcd\x86R"
            "\x8c\x01ocm\nC\nK\x01\x85\x81u."s));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(NamesIn(**file), std::vector<std::string>{"x"});
  const Attributes& attributes = (*file)->attributes();
  EXPECT_EQ(attributes.at(kObjectsAttribute), "2");
  EXPECT_EQ(attributes.at(kFirstObjectsAttribute),
            "loss (a NumPy number), o (m.C)");
}

TEST(TorchFileTest, TensorsInObjectsAreDelivered) {
  // m.Output(tensor), which is also the item "hidden" and in the state.
  const auto output =
      OpenText(Saved("\x80\x02"
                     "cm\nOutput\n" +
                     Tensor() +
                     "q\x01\x85R(\x8c\x06hidden"
                     "h\x01u}\x8c\x06hiddenh\x01sb."s));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(NamesIn(**output), std::vector<std::string>{"hidden"});
  EXPECT_FALSE((*output)->attributes().contains(kObjectsAttribute));
  // m.Cache() with the state {"layers": [m.Layer() with {"keys": tensor}]}.
  const auto cache =
      OpenText(Saved("\x80\x02"
                     "cm\nCache\n)\x81}\x8c\x06layers]cm\nLayer\n)\x81}"
                     "\x8c\x04keys" +
                     Tensor() + "sbasb."s));
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ(NamesIn(**cache), std::vector<std::string>{"layers.0.keys"});
}

// No function that a file names is called.
TEST(TorchFileTest, AFileWithoutTensorsSaysWhatItHas) {
  const auto file =
      OpenText(Saved("\x80\x02"
                     "cos\nsystem\n\x8c\x02ls\x85R."s));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(Message(file.status()).find("it has no tensors, but os.system"),
            std::string_view::npos);
}

TEST(TorchFileTest, AnObjectCanContainItself) {
  const auto file = OpenText(Saved(
      "\x80\x02](cm\nC\n)\x81q\x01}\x8c\x04selfh\x01sb" + Tensor() + "e."s));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(NamesIn(**file), std::vector<std::string>{"1"});
  EXPECT_EQ((*file)->attributes().at(kObjectsAttribute), "1");
}

// Its tensors would be lost.
TEST(TorchFileTest, UnknownWaysToMakeATensorAreRefused) {
  std::string pickle = Column("ShortStorage");
  pickle.replace(pickle.find("tensor_v2"), 9, "tensor_v9");
  const auto file = OpenText(Saved(pickle));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(Message(file.status()).find("_rebuild_tensor_v9"),
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
