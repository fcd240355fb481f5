// SPDX-License-Identifier: Apache-2.0
#include "protos/base/sample.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace msitd {
namespace {

// Returns the elements at the smallest step that gives at most the maximum
// number of elements of a sample, found by trial. If there are many elements,
// no step below the quotient is sufficient, so the search begins there.
std::vector<uint64_t> NaiveGrid(uint64_t element_count) {
  constexpr uint64_t kFew = 10 * kSampleElementsMax;
  std::vector<uint64_t> grid;
  uint64_t step =
      element_count < kFew ? 0 : element_count / kSampleElementsMax - 1;
  do {
    ++step;
    grid.clear();
    for (uint64_t i = 0; i < element_count; i += step) {
      grid.push_back(i);
      if (grid.size() > kSampleElementsMax) break;
    }
  } while (grid.size() > kSampleElementsMax);
  return grid;
}

// Returns the elements of a tensor that are in the slices of its parts.
std::vector<uint64_t> SlicedGrid(DType dtype, uint64_t element_count) {
  const uint64_t element_bytes = ElementBytes(dtype);
  const uint64_t tensor_bytes = element_count * element_bytes;
  std::vector<uint64_t> grid;
  for (uint64_t offset = 0; offset < tensor_bytes; offset += kPartBytes) {
    const SampleSlice slice = SampleOf({dtype, tensor_bytes, offset});
    const uint64_t part_bytes = std::min(kPartBytes, tensor_bytes - offset);
    EXPECT_EQ(slice.element_bytes, element_bytes);
    EXPECT_EQ(slice.step, SampleStep(element_count));
    for (uint64_t i = 0; i < slice.count; ++i) {
      const uint64_t element = slice.first + i * slice.step;
      EXPECT_LT(element, part_bytes / element_bytes);
      grid.push_back(offset / element_bytes + element);
    }
  }
  return grid;
}

constexpr DType kDTypes[] = {DType::kUint8, DType::kBfloat16, DType::kFloat32,
                             DType::kComplex64, DType::kComplex128};

TEST(SampleTest, PartsTogetherHaveTheGridOfTheTensor) {
  for (const DType dtype : kDTypes) {
    const uint64_t part = kPartBytes / ElementBytes(dtype);
    for (const uint64_t count :
         {uint64_t{0},    uint64_t{1},     uint64_t{2},     uint64_t{1023},
          uint64_t{1024}, uint64_t{1025},  uint64_t{2047},  uint64_t{2048},
          uint64_t{2049}, uint64_t{3000},  uint64_t{10007}, part - 1,
          part,           part + 1,        part + 1023,     2 * part - 1,
          2 * part,       2 * part + 1,    3 * part + 77,   1023 * part + 1,
          1024 * part,    1024 * part + 1, 2500 * part + 13}) {
      const std::vector<uint64_t> grid = NaiveGrid(count);
      EXPECT_EQ(SampleCount(count), grid.size()) << count;
      EXPECT_EQ(SlicedGrid(dtype, count), grid)
          << DTypeName(dtype) << " " << count;
    }
  }
}

TEST(SampleTest, EveryCountNearTheBoundsHasTheSmallestStep) {
  for (uint64_t count = 0; count < 5 * kSampleElementsMax; ++count) {
    ASSERT_EQ(SampleCount(count), NaiveGrid(count).size()) << count;
  }
  EXPECT_EQ(SampleStep(0), 1u);
  EXPECT_EQ(SampleStep(1024), 1u);
  EXPECT_EQ(SampleStep(1025), 2u);
  EXPECT_EQ(SampleCount(1025), 513u);
  EXPECT_EQ(SampleCount(uint64_t{1} << 40), 1024u);
}

TEST(SampleTest, PartsOfTheLargestTensorMayHaveNoneOfIt) {
  uint64_t count = 0;
  uint64_t empty_parts = 0;
  for (uint64_t offset = 0; offset < kTensorBytesMax; offset += kPartBytes) {
    const SampleSlice slice =
        SampleOf({DType::kUint8, kTensorBytesMax, offset});
    if (slice.count > 0) {
      EXPECT_EQ(slice.first, 0u);
    }
    count += slice.count;
    empty_parts += slice.count == 0 ? 1 : 0;
  }
  EXPECT_EQ(count, kSampleElementsMax);
  EXPECT_EQ(empty_parts, kTensorBytesMax / kPartBytes - kSampleElementsMax);
}

TEST(SampleTest, WhatIsNoPartHasNone) {
  EXPECT_EQ(SampleOf({DType::kUnspecified, 100, 0}).bytes(), 0u);
  EXPECT_EQ(SampleOf({DType::kFloat32, 0, 0}).bytes(), 0u);
  EXPECT_EQ(SampleOf({DType::kFloat32, 100, kPartBytes}).bytes(), 0u);
}

TEST(SampleTest, GatheredElementsAreThoseOfTheSlice) {
  for (const DType dtype : kDTypes) {
    const uint64_t bytes = ElementBytes(dtype);
    for (const uint64_t count : {1u, 1000u, 1024u, 1025u, 4000u, 10007u}) {
      std::vector<std::byte> tensor(count * bytes);
      for (size_t i = 0; i < tensor.size(); ++i) {
        tensor[i] = static_cast<std::byte>(i * 7 + i / 251);
      }
      std::vector<std::byte> expected;
      for (const uint64_t element : NaiveGrid(count)) {
        expected.insert(expected.end(), tensor.begin() + element * bytes,
                        tensor.begin() + (element + 1) * bytes);
      }
      const SampleSlice slice = SampleOf({dtype, tensor.size(), 0});
      ASSERT_EQ(slice.bytes(), expected.size());
      std::vector<std::byte> apart(slice.bytes());
      GatherSample(slice, tensor, apart);
      EXPECT_TRUE(apart == expected) << DTypeName(dtype) << " " << count;
      GatherSample(slice, tensor, tensor);
      tensor.resize(slice.bytes());
      EXPECT_TRUE(tensor == expected) << DTypeName(dtype) << " " << count;
    }
  }
}

}  // namespace
}  // namespace msitd
