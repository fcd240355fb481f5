// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/strided_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace msitd::libmsit {
namespace {

// Copies element by element, as a reference.
std::vector<std::byte> Gather(const std::byte* data,
                              const std::vector<int64_t>& dims,
                              const std::vector<int64_t>& strides,
                              uint32_t element_bytes) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  std::vector<std::byte> out;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    const std::byte* element = data;
    for (size_t d = dims.size(); d-- > 0;) {
      element += rest % dims[d] * strides[d];
      rest /= dims[d];
    }
    out.insert(out.end(), element, element + element_bytes);
  }
  return out;
}

class StridedCopyTest : public testing::Test {
 protected:
  StridedCopyTest() : memory_(1 << 16) {
    std::mt19937 random(7);
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
  }

  // Compares every split of the tensor at `cut` with the reference.
  void Check(const std::vector<int64_t>& dims,
             const std::vector<int64_t>& strides, uint32_t element_bytes) {
    const std::byte* data = memory_.data() + memory_.size() / 2;
    const auto expected = Gather(data, dims, strides, element_bytes);
    const uint64_t count = expected.size() / element_bytes;
    for (uint64_t cut = 0; cut <= count; ++cut) {
      std::vector<std::byte> out(expected.size());
      CopyStrided(data, dims, strides, element_bytes, 0, cut, out.data());
      CopyStrided(data, dims, strides, element_bytes, cut, count - cut,
                  out.data() + cut * element_bytes);
      ASSERT_EQ(out, expected) << "cut at " << cut;
    }
  }

  std::vector<std::byte> memory_;
};

TEST_F(StridedCopyTest, TransposeOfEveryElementSize) {
  for (const uint32_t bytes : {1u, 2u, 4u, 8u, 16u}) {
    Check({5, 7}, {int64_t{bytes}, int64_t{bytes} * 5}, bytes);
  }
}

TEST_F(StridedCopyTest, SliceWithStep) { Check({4, 3, 6}, {96, 32, 4}, 2); }

TEST_F(StridedCopyTest, NegativeStridesWalkBackwards) {
  Check({6, 5}, {-20, -4}, 4);
}

TEST_F(StridedCopyTest, ZeroStrideRepeatsTheElement) {
  Check({3, 4, 2}, {0, 8, 0}, 8);
}

TEST_F(StridedCopyTest, ScalarAndDimsOfOne) {
  Check({}, {}, 4);
  Check({1, 1}, {999, -999}, 4);
  Check({1, 6, 1}, {0, 4, 77}, 4);
}

TEST_F(StridedCopyTest, BytesStridesNeedNotBeMultiplesOfTheElement) {
  Check({5, 3}, {13, 7}, 4);
}

TEST(IsContiguousTest, IgnoresStridesOfDimsOfOne) {
  EXPECT_TRUE(IsContiguous(std::vector<int64_t>{2, 1, 3},
                           std::vector<int64_t>{12, 5, 4}, 4));
  EXPECT_TRUE(IsContiguous({}, {}, 4));
  EXPECT_FALSE(
      IsContiguous(std::vector<int64_t>{2, 3}, std::vector<int64_t>{4, 8}, 4));
  EXPECT_FALSE(
      IsContiguous(std::vector<int64_t>{2, 3}, std::vector<int64_t>{16, 4}, 4));
}

}  // namespace
}  // namespace msitd::libmsit
