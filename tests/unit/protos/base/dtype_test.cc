// SPDX-License-Identifier: Apache-2.0
#include "protos/base/dtype.h"

#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace msitd {
namespace {

// The numbers are used on the wire and on disk, so a change here breaks the
// format.
TEST(DTypeTest, NumbersNamesAndSizesAreFrozen) {
  struct Row {
    int number;
    const char* name;
    uint32_t bytes;
  };
  constexpr Row kRows[] = {
      {1, "bool", 1},
      {2, "int8", 1},
      {3, "int16", 2},
      {4, "int32", 4},
      {5, "int64", 8},
      {6, "uint8", 1},
      {7, "uint16", 2},
      {8, "uint32", 4},
      {9, "uint64", 8},
      {10, "float16", 2},
      {11, "bfloat16", 2},
      {12, "float32", 4},
      {13, "float64", 8},
      {14, "float8_e4m3fn", 1},
      {15, "float8_e5m2", 1},
      {16, "complex64", 8},
      {17, "complex128", 16},
      {18, "int1", 1},
      {19, "uint1", 1},
      {20, "int2", 1},
      {21, "uint2", 1},
      {22, "int4", 1},
      {23, "uint4", 1},
      {24, "float4_e2m1fn", 1},
      {25, "float4_e1m2", 1},
      {26, "float6_e2m3fn", 1},
      {27, "float6_e3m2fn", 1},
      {28, "hifloat8", 1},
      {29, "float8_e8m0fnu", 1},
      {30, "complex32", 4},
      {31, "float8_e4m3fnuz", 1},
      {32, "float8_e5m2fnuz", 1},
      {33, "int3", 1},
      {34, "uint3", 1},
      {35, "int5", 1},
      {36, "uint5", 1},
      {37, "int6", 1},
      {38, "uint6", 1},
      {39, "int7", 1},
      {40, "uint7", 1},
      {41, "bits8", 1},
      {42, "bits16", 2},
      {43, "bits1x8", 1},
      {44, "bits2x4", 1},
      {45, "bits4x2", 1},
  };
  ASSERT_EQ(std::size(kRows) + 1, static_cast<size_t>(kDTypeCount));
  for (const Row& row : kRows) {
    const auto dtype = static_cast<DType>(row.number);
    EXPECT_EQ(DTypeName(dtype), row.name);
    EXPECT_EQ(ElementBytes(dtype), row.bytes) << row.name;
    EXPECT_TRUE(IsValid(dtype)) << row.name;
    EXPECT_EQ(ParseDType(row.name), dtype);
  }
}

TEST(DTypeTest, EveryOtherNumberIsInvalid) {
  for (int number = 0; number < 256; ++number) {
    const bool known = number >= 1 && number < kDTypeCount;
    EXPECT_EQ(IsValid(static_cast<DType>(number)), known) << number;
    if (!known) {
      EXPECT_EQ(DTypeName(static_cast<DType>(number)), "unspecified");
    }
  }
}

TEST(DTypeTest, ParseRefusesWhatIsNoName) {
  for (const char* name : {"", "unspecified", "Float32", "float32 ", "half"}) {
    EXPECT_FALSE(ParseDType(name).has_value()) << name;
  }
}

TEST(DTypeTest, RowsAgreeWithThemselves) {
  std::set<std::string_view> names;
  for (size_t number = 1; number < kDTypes.size(); ++number) {
    const DTypeInfo& info = kDTypes[number];
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.bytes, (info.bits + 7) / 8) << info.name;
    const bool has_digits =
        info.kind == DTypeKind::kFloat || info.kind == DTypeKind::kComplex;
    EXPECT_EQ(info.digits != 0, has_digits) << info.name;
    EXPECT_EQ(std::stoul(std::string(info.numpy.substr(1))), info.bytes)
        << info.name;
    if (info.is_ordered) {
      EXPECT_EQ(info.kind, DTypeKind::kFloat) << info.name;
    }
  }
}

TEST(DTypeTest, ClassesDoNotOverlap) {
  std::set<std::string_view> floating;
  std::set<std::string_view> complex;
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (IsFloatingPoint(dtype)) floating.insert(DTypeName(dtype));
    if (IsComplex(dtype)) complex.insert(DTypeName(dtype));
  }
  EXPECT_EQ(floating,
            (std::set<std::string_view>{
                "float16", "bfloat16", "float32", "float64", "float8_e4m3fn",
                "float8_e5m2", "float4_e2m1fn", "float4_e1m2", "float6_e2m3fn",
                "float6_e3m2fn", "hifloat8", "float8_e8m0fnu",
                "float8_e4m3fnuz", "float8_e5m2fnuz"}));
  EXPECT_EQ(complex, (std::set<std::string_view>{"complex32", "complex64",
                                                 "complex128"}));
}

}  // namespace
}  // namespace msitd
