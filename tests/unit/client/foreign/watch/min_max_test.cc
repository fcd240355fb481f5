// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/min_max.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "client/foreign/write/writer/npy_header.h"
#include "tests/support/temp_dir.h"

namespace msitd::watch {
namespace {

TEST(MinMaxTest, NamesAreThoseOfTheDocument) {
  const std::string ge = "MatMul.layer_0.2.0.1735689600000000";
  EXPECT_EQ(MinMaxName("a.INPUT.0.20250101.npy"),
            "a.INPUT.0.20250101_min_max.npy");
  EXPECT_EQ(MinMaxName(ge), ge + "_min_max.npz");
  for (const std::string name :
       {"a_min_max.npy", "graph.txt", "a.npz", "a.pth", "mapping.csv"}) {
    EXPECT_FALSE(MinMaxName(name).has_value()) << name;
  }
  EXPECT_FALSE(MinMaxName(ge + "_min_max.npz").has_value());
  EXPECT_FALSE(MinMaxName(ge + ".csv").has_value());
  EXPECT_EQ(SourceOfMinMax("a_min_max.npy"), "a.npy");
  EXPECT_EQ(SourceOfMinMax(ge + "_min_max.npz"), ge);
  EXPECT_FALSE(SourceOfMinMax("a.npy").has_value());
}

TEST(MinMaxTest, TypesArePromotedAsNumPyDoes) {
  EXPECT_EQ(Promote(DType::kBool, DType::kInt8), DType::kInt8);
  EXPECT_EQ(Promote(DType::kUint8, DType::kInt8), DType::kInt16);
  EXPECT_EQ(Promote(DType::kUint32, DType::kInt16), DType::kInt64);
  EXPECT_EQ(Promote(DType::kUint64, DType::kInt64), DType::kFloat64);
  EXPECT_EQ(Promote(DType::kFloat16, DType::kUint8), DType::kFloat16);
  EXPECT_EQ(Promote(DType::kInt16, DType::kFloat16), DType::kFloat32);
  EXPECT_EQ(Promote(DType::kInt32, DType::kFloat32), DType::kFloat64);
  EXPECT_EQ(Promote(DType::kFloat16, DType::kFloat64), DType::kFloat64);
}

class MinMaxFileTest : public ::testing::Test {
 protected:
  template <typename T>
  absl::Status Read(DType dtype, const std::vector<T>& elements, MinMax* out) {
    const std::string path = dir_.path() + "/a.npy";
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << write::MakeNpyHeader(dtype, {static_cast<int64_t>(elements.size())})
                .bytes;
    file.write(reinterpret_cast<const char*>(elements.data()),
               static_cast<std::streamsize>(elements.size() * sizeof(T)));
    file.close();
    std::vector<MinMax> rows;
    const absl::Status read = ReadMinMax(path, &rows);
    if (read.ok()) *out = rows.at(0);
    return read;
  }

  testing::TempDir dir_;
};

TEST_F(MinMaxFileTest, NanGoesBeforeAllElse) {
  MinMax row;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(Read<float>(DType::kFloat32, {3, -1, 2}, &row).ok());
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(row.min_bits)), -1);
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(row.max_bits)), 3);
  for (const auto& with_nan :
       {std::vector<float>{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}}) {
    ASSERT_TRUE(Read<float>(DType::kFloat32, with_nan, &row).ok());
    EXPECT_TRUE(
        std::isnan(std::bit_cast<float>(static_cast<uint32_t>(row.min_bits))));
    EXPECT_TRUE(
        std::isnan(std::bit_cast<float>(static_cast<uint32_t>(row.max_bits))));
  }
}

TEST_F(MinMaxFileTest, HalvesAreOrderedByTheirValue) {
  MinMax row;
  // The elements are -2, 1, -inf, and the smallest positive number.
  ASSERT_TRUE(
      Read<uint16_t>(DType::kFloat16, {0xc000, 0x3c00, 0xfc00, 1}, &row).ok());
  EXPECT_EQ(row.min_bits, 0xfc00u);
  EXPECT_EQ(row.max_bits, 0x3c00u);
}

TEST_F(MinMaxFileTest, WhatHasNoSmallestElementIsRefused) {
  MinMax row;
  EXPECT_FALSE(Read<float>(DType::kFloat32, {}, &row).ok());
  EXPECT_FALSE(Read<float>(DType::kComplex64, {1, 2}, &row).ok());
}

TEST_F(MinMaxFileTest, LargeWholeNumbersStayExact) {
  MinMax row;
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  ASSERT_TRUE(Read<int64_t>(DType::kInt64, {0, low, high}, &row).ok());
  const std::string array = MinMaxArray({row}, /*is_one=*/true);
  int64_t values[2];
  std::memcpy(values, array.data() + array.size() - 16, 16);
  EXPECT_EQ(values[0], low);
  EXPECT_EQ(values[1], high);
}

}  // namespace
}  // namespace msitd::watch
