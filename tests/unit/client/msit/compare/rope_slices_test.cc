// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/rope_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::msit_command {
namespace {

using ::testing::ElementsAre;

Tensor MakeTensor(const std::vector<float>& values,
                  std::vector<int64_t> shape) {
  Tensor out{DType::kFloat32, std::move(shape), {}};
  out.bytes.resize(values.size() * sizeof(float));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

std::vector<double> Numbers(const std::optional<Tensor>& tensor) {
  return tensor.has_value() ? *NumbersOf(*tensor) : std::vector<double>();
}

TEST(RopeSlicesTest, TheRowAtTheEndOfTheSequenceIsTaken) {
  const Tensor table = MakeTensor({0, 1, 2, 3, 4, 5}, {1, 1, 3, 2});
  EXPECT_THAT(Numbers(SliceOfTable(table, 2, 0)), ElementsAre(2, 3));
  EXPECT_THAT(SliceOfTable(table, 2, 0)->shape, ElementsAre(1, 1, 2));
  // The last row can be selected, too.
  EXPECT_THAT(Numbers(SliceOfTable(table, 3, 1)), ElementsAre(4, 5));
  EXPECT_FALSE(SliceOfTable(table, 4, 0).has_value());
}

TEST(RopeSlicesTest, ARowMayBeInTheSecondDimension) {
  const Tensor table = MakeTensor({0, 1, 2, 3, 4, 5}, {1, 3, 1, 2});
  EXPECT_THAT(Numbers(SliceOfTable(table, 2, 0)), ElementsAre(2, 3));
}

TEST(RopeSlicesTest, ATableMayHaveCosineAndSine) {
  const Tensor table = MakeTensor({0, 10, 1, 11, 2, 12, 3, 13}, {2, 2, 2});
  EXPECT_THAT(Numbers(SliceOfTable(table, 2, 0)), ElementsAre(2, 3));
  EXPECT_THAT(Numbers(SliceOfTable(table, 2, 1)), ElementsAre(12, 13));
  EXPECT_FALSE(SliceOfTable(table, 3, 0).has_value());
  EXPECT_FALSE(SliceOfTable(MakeTensor({1, 2}, {2}), 1, 0).has_value());
}

TEST(RopeSlicesTest, ColumnsThatComeTwiceAreOne) {
  EXPECT_THAT(Numbers(WithoutRepeatedColumns(MakeTensor({1, 1, 2, 2}, {1, 4}))),
              ElementsAre(1, 2));
  EXPECT_FALSE(
      WithoutRepeatedColumns(MakeTensor({1, 2, 2, 1}, {1, 4})).has_value());
  EXPECT_FALSE(
      WithoutRepeatedColumns(MakeTensor({1, 1, 2}, {1, 3})).has_value());
  EXPECT_FALSE(
      WithoutRepeatedColumns(MakeTensor({1, 1, 2, 2}, {2, 2})).has_value());
}

}  // namespace
}  // namespace msitd::msit_command
