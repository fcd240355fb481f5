// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::write {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(NpyTest, HeaderIsVersionOneAndAligned) {
  const std::string bytes = MakeNpyHeader(DType::kFloat32, {2, 3}).bytes;
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\x00", 8)));
  EXPECT_EQ(bytes.size() % 64, 0u);
  EXPECT_EQ(bytes.back(), '\n');
  const size_t stated = static_cast<unsigned char>(bytes[8]) |
                        static_cast<unsigned char>(bytes[9]) << 8;
  EXPECT_EQ(stated, bytes.size() - 10);
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, "
                               "'shape': (2, 3), }"));
}

TEST(NpyTest, ShapesAreTuples) {
  EXPECT_THAT(MakeNpyHeader(DType::kBool, {}).bytes, HasSubstr("'shape': ()"));
  EXPECT_THAT(MakeNpyHeader(DType::kBool, {7}).bytes,
              HasSubstr("'shape': (7,)"));
}

TEST(NpyTest, TypesThatNumpyLacksAreStoredAsIntegers) {
  const NpyHeader bf16 = MakeNpyHeader(DType::kBfloat16, {1});
  EXPECT_THAT(bf16.bytes, HasSubstr("'<u2'"));
  EXPECT_EQ(bf16.stored_as, "uint16");
  EXPECT_EQ(MakeNpyHeader(DType::kFloat8E5m2, {1}).stored_as, "uint8");
  EXPECT_EQ(MakeNpyHeader(DType::kComplex64, {1}).stored_as, "");
  EXPECT_EQ(MakeNpyHeader(DType::kComplex32, {1}).stored_as, "uint32");
  EXPECT_EQ(MakeNpyHeader(DType::kHifloat8, {1}).stored_as, "uint8");
  EXPECT_EQ(MakeNpyHeader(DType::kUint4, {1}).stored_as, "");
}

TEST(NpyTest, TypesThatNumpyLacksCanBeStoredAsVoid) {
  const auto descriptor = [](DType dtype) {
    const NpyHeader header = MakeNpyHeader(dtype, {1}, NpySubstitute::kVoid);
    const size_t begin = header.bytes.find(": '") + 3;
    return header.bytes.substr(begin, 3) + header.stored_as;
  };
  EXPECT_EQ(descriptor(DType::kBfloat16), "<V2<V2");
  EXPECT_EQ(descriptor(DType::kFloat8E5m2), "|V1|V1");
  EXPECT_EQ(descriptor(DType::kUint4), "|V1|V1");
  EXPECT_EQ(descriptor(DType::kInt1), "|V1|V1");
  EXPECT_EQ(descriptor(DType::kComplex32), "<u4uint32");
  EXPECT_EQ(descriptor(DType::kInt8), "|i1");
  EXPECT_EQ(descriptor(DType::kFloat32), "<f4");
}

TEST(NpyTest, EveryTypeHasADescriptorOfItsSize) {
  for (int number = 1; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const std::string bytes = MakeNpyHeader(dtype, {}).bytes;
    const size_t quote = bytes.find("', 'fortran");
    const size_t begin = bytes.rfind('\'', quote - 1) + 3;
    EXPECT_EQ(std::stoul(bytes.substr(begin, quote - begin)),
              ElementBytes(dtype))
        << DTypeName(dtype);
  }
}

TEST(NpyTest, TheLongestShapeFits) {
  const std::vector<int64_t> shape(32, int64_t{1} << 40);
  EXPECT_EQ(MakeNpyHeader(DType::kInt8, shape).bytes.size() % 64, 0u);
}

}  // namespace
}  // namespace msitd::write
