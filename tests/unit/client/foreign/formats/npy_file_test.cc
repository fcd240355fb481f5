// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/npy_file.h"

#include <gtest/gtest.h>

#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

std::string HeadOf(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order +
         ", 'shape': " + shape + ", }   \n";
}

struct Read {
  absl::Status status;
  ForeignTensor tensor;
  std::string bytes;
};

Read ReadOne(const std::string& file, const OpenOptions& options = {}) {
  Read read;
  const auto opened = OpenText(file, options);
  read.status = opened.status();
  if (!opened.ok()) return read;
  read.tensor = *(*opened)->Next();
  const auto bytes = ReadAll(**opened, kReadBytesMin);
  read.status = bytes.status();
  if (bytes.ok()) read.bytes = *bytes;
  EXPECT_EQ((*opened)->Next(), nullptr);
  return read;
}

TEST(NpyFileTest, NumbersComeAsTheyAre) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Read read = ReadOne(NpyOf(HeadOf("'<f4'", "(2, 3)"), BytesOf(values)));
  EXPECT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.tensor.dtype, DType::kFloat32);
  EXPECT_EQ(read.tensor.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read.tensor.bytes, 24);
  EXPECT_EQ(read.bytes, BytesOf(values));
}

TEST(NpyFileTest, FortranOrderIsTurned) {
  const Read read = ReadOne(NpyOf(HeadOf("'<i2'", "(2, 3)", "True"),
                                  BytesOf<int16_t>({1, 4, 2, 5, 3, 6})));
  EXPECT_EQ(read.bytes, BytesOf<int16_t>({1, 2, 3, 4, 5, 6}));
}

TEST(NpyFileTest, BigEndianIsSwapped) {
  Read read = ReadOne(NpyOf(HeadOf("'>u4'", "(1,)"), "\x01\x02\x03\x04"));
  EXPECT_EQ(read.bytes, "\x04\x03\x02\x01");
  read = ReadOne(NpyOf(HeadOf("'>c8'", "()"), "12345678"));
  EXPECT_EQ(read.bytes, "43218765");
  EXPECT_TRUE(read.tensor.shape.empty());
}

TEST(NpyFileTest, EmptyArraysHaveNoBytes) {
  const Read read = ReadOne(NpyOf(HeadOf("'<f8'", "(0, 3)"), ""));
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.bytes, "");
}

TEST(NpyFileTest, OtherWaysToWriteAHeadAreRead) {
  EXPECT_TRUE(ReadOne(NpyOf("{\"shape\":(2L,),'descr':'|b1',"
                            "'fortran_order':False}",
                            "\x01\x01"))
                  .status.ok());
  std::string version3 = NpyOf(HeadOf("'|i1'", "(1,)"), "x");
  version3[6] = 3;
  version3.insert(10, 2, '\0');
  EXPECT_EQ(ReadOne(version3).bytes, "x");
}

TEST(NpyFileTest, WhatIsNoNumberHasAReason) {
  for (const char* descr :
       {"'|O'", "'<U3'", "'|S4'", "'<M8[ns]'", "'<f16'", "'|V1'", "'>V2'",
        "'|V4'", "''", "[('a', '<f4'), ('b', [('c', '<i4', (2,))])]"}) {
    const Read read = ReadOne(NpyOf(HeadOf(descr, "(1,)"), "0123456789abcdef"));
    EXPECT_EQ(read.status.code(), absl::StatusCode::kUnimplemented) << descr;
    EXPECT_EQ(read.tensor.shape, (std::vector<int64_t>{1}));
  }
}

// ml_dtypes writes bfloat16 as bytes without a meaning.
TEST(NpyFileTest, TwoBytesWithoutAMeaningAreBfloat16) {
  for (const char* descr : {"'|V2'", "'<V2'", "'V2'", "'bfloat16'"}) {
    const Read read = ReadOne(NpyOf(HeadOf(descr, "(2,)"), "abcd"));
    EXPECT_TRUE(read.status.ok()) << descr;
    EXPECT_EQ(read.tensor.dtype, DType::kBfloat16) << descr;
    EXPECT_EQ(read.bytes, "abcd") << descr;
  }
}

TEST(NpyFileTest, TheCallerCanNameTypes) {
  OpenOptions options;
  options.void1 = DType::kFloat8E5m2;
  options.void2 = DType::kBfloat16;
  Read read = ReadOne(NpyOf(HeadOf("'<V2'", "(1,)"), "ab"), options);
  EXPECT_EQ(read.tensor.dtype, DType::kBfloat16);
  EXPECT_EQ(read.bytes, "ab");
  read = ReadOne(NpyOf(HeadOf("'|V1'", "(2,)"), "ab"), options);
  EXPECT_EQ(read.tensor.dtype, DType::kFloat8E5m2);
}

TEST(NpyFileTest, ACutFileHasAReason) {
  const Read read = ReadOne(NpyOf(HeadOf("'<f4'", "(2,)"), "1234567"));
  EXPECT_EQ(read.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(read.tensor.dtype, DType::kFloat32);
}

TEST(NpyFileTest, ShapesThatNobodyHasAreRefused) {
  std::string many = "(";
  for (int i = 0; i < 33; ++i) many += "1,";
  for (const std::string& shape :
       {many + ")", std::string("(9223372036854775807, 9223372036854775807)"),
        std::string("(1099511627777, 0)")}) {
    const Read read = ReadOne(NpyOf(HeadOf("'<f4'", shape), ""));
    EXPECT_EQ(read.status.code(), absl::StatusCode::kInvalidArgument) << shape;
  }
}

TEST(NpyFileTest, WrongHeadsAreRefused) {
  const std::string good = HeadOf("'<f4'", "(1,)");
  EXPECT_TRUE(ReadOne(NpyOf(good, "1234")).status.ok());
  for (const std::string& head :
       {std::string(), std::string("{}"), good.substr(0, 20), good + "x",
        HeadOf("'<f4'", "(-1,)"), HeadOf("'<f4'", "(1)"), HeadOf("'<f4'", "1"),
        HeadOf("'<f4'", "(1,,)"), HeadOf("'<f4'", "(1 2)"),
        HeadOf("'<f4'", "(99999999999999999999,)"),
        HeadOf("'<f4'", "(1,)", "0"), HeadOf("f4", "(1,)"),
        HeadOf("__import__('os')", "(1,)"), HeadOf("'a\\'", "(1,)"),
        HeadOf("[[[", "(1,)"), HeadOf(std::string(1000, '['), "(1,)"),
        std::string("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, "
                    "'shape': ()}"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (), "
                    "'more': ()}")}) {
    EXPECT_EQ(ReadOne(NpyOf(head, "1234")).status.code(),
              absl::StatusCode::kInvalidArgument)
        << head;
  }
}

TEST(NpyFileTest, LongHeadsAreRefusedBeforeTheyAreRead) {
  const std::string file("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  EXPECT_EQ(ReadOne(file).status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace msitd::formats
