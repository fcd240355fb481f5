// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/gguf_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msitd::formats {
namespace {

// The scales of two blocks as halves. Those of the first are 0.0625 and -1.5.
// Those of the second are -2.98e-06, which is subnormal, and 0.25.
constexpr uint16_t kScales[2][2] = {{0x2C00, 0xBE00}, {0x8032, 0x3400}};

struct Golden {
  uint32_t type;
  std::vector<size_t> scale_offsets;
  // The hash (FNV-1a) of the values that the Python package gguf 0.19 computes.
  uint64_t hash;
};

const Golden kGolden[] = {
    {2, {0}, 0xe6d3e79f6985aa07},     {3, {0, 2}, 0x01f8b3b0acf30677},
    {6, {0}, 0xcd282605df691850},     {7, {0, 2}, 0xacf3f874eaa43ab3},
    {8, {0}, 0x28c58e75eb51f4f0},     {10, {80, 82}, 0xaee8d6f9f3dd4530},
    {11, {108}, 0x19584c043ec7bc76},  {12, {0, 2}, 0x0289543da681613d},
    {13, {0, 2}, 0x06825d618e89caed}, {14, {208}, 0x5e54462cd5b79396},
};

// Returns two blocks of a type with arbitrary integers.
std::string BlocksOf(const Golden& golden, const GgufBlockType& type) {
  std::string out;
  for (uint32_t i = 0; i < 2 * type.bytes; ++i) {
    out.push_back(static_cast<char>((i * 37 + 11) & 0xFFU));
  }
  for (size_t block = 0; block < 2; ++block) {
    for (size_t i = 0; i < golden.scale_offsets.size(); ++i) {
      const size_t at = block * type.bytes + golden.scale_offsets[i];
      out[at] = static_cast<char>(kScales[block][i] & 0xFFU);
      out[at + 1] = static_cast<char>(kScales[block][i] >> 8U);
    }
  }
  return out;
}

uint64_t HashOf(const std::vector<std::byte>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

TEST(GgufBlocksTest, ValuesAreThoseOfThePythonPackage) {
  for (const Golden& golden : kGolden) {
    const GgufBlockType* const type = FindGgufBlockType(golden.type);
    ASSERT_NE(type, nullptr);
    // The blocks are in the middle of a file.
    const auto values = MakeGgufValues(
        std::make_shared<MemorySource>("head" + BlocksOf(golden, *type) + "x"),
        4, 2, *type);
    std::vector<std::byte> bytes(2 * type->elements * sizeof(float));
    EXPECT_EQ(values->size(), bytes.size());
    ASSERT_TRUE(values->ReadAt(0, bytes).ok());
    EXPECT_EQ(HashOf(bytes), golden.hash) << type->name;
  }
}

TEST(GgufBlocksTest, AnyPartCanBeRead) {
  const GgufBlockType& type = *FindGgufBlockType(12);
  const auto values = MakeGgufValues(
      std::make_shared<MemorySource>(BlocksOf(kGolden[7], type)), 0, 2, type);
  std::vector<std::byte> whole(values->size());
  ASSERT_TRUE(values->ReadAt(0, whole).ok());
  for (const size_t begin : {0, 1, 1022, 1023, 1024, 1025, 2047}) {
    for (const size_t count : {0, 1, 3, 4, 1000, 2048}) {
      std::vector<std::byte> part(std::min(count, whole.size() - begin));
      ASSERT_TRUE(values->ReadAt(begin, part).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(),
                             whole.begin() + static_cast<ptrdiff_t>(begin)));
    }
  }
  std::vector<std::byte> more(whole.size() + 1);
  EXPECT_FALSE(values->ReadAt(0, more).ok());
}

TEST(GgufBlocksTest, OtherTypesHaveNoDecoder) {
  EXPECT_EQ(FindGgufBlockType(0), nullptr);
  EXPECT_EQ(FindGgufBlockType(77), nullptr);
  EXPECT_EQ(FindGgufBlockType(19)->decode, nullptr);
  EXPECT_EQ(FindGgufBlockType(19)->name, "IQ1_S");
}

}  // namespace
}  // namespace msitd::formats
