// SPDX-License-Identifier: Apache-2.0
#include "client/web/value_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace msitd::web {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Elements ElementsOf(const std::vector<double>& values) {
  return {DType::kFloat64, std::as_bytes(std::span(values))};
}

int64_t CountOf(const Density& density) {
  int64_t count = 0;
  for (const Density::Cell& cell : density.cells) count += cell.count;
  return count;
}

TEST(ValueGridTest, OnlyRealNumbersAreDrawn) {
  EXPECT_TRUE(HasNumbers(DType::kBfloat16));
  EXPECT_TRUE(HasNumbers(DType::kBool));
  EXPECT_TRUE(HasNumbers(DType::kInt4));
  EXPECT_FALSE(HasNumbers(DType::kComplex64));
  EXPECT_FALSE(HasNumbers(DType::kUnspecified));
}

TEST(ValueGridTest, EqualValuesDoNotDiffer) {
  EXPECT_EQ(DifferenceOf(kNan, kNan), 0);
  EXPECT_EQ(DifferenceOf(kInfinity, kInfinity), 0);
  EXPECT_EQ(DifferenceOf(0.0, -0.0), 0);
  EXPECT_EQ(DifferenceOf(1, 3), 2);
  EXPECT_TRUE(std::isnan(DifferenceOf(1, kNan)));
  EXPECT_EQ(DifferenceOf(kInfinity, 1), -kInfinity);
}

template <typename Integer>
Elements IntegersOf(DType dtype, const std::vector<Integer>& values) {
  return {dtype, std::as_bytes(std::span(values))};
}

TEST(ValueGridTest, WideIntegersAreSubtractedBeforeTheyAreRounded) {
  const int64_t large = int64_t{1} << 53;
  const std::vector<int64_t> golden = {large, -large - 1, 5, large};
  const std::vector<int64_t> target = {large + 1, large + 2, 7, large};
  const Elements g = IntegersOf(DType::kInt64, golden);
  const Elements t = IntegersOf(DType::kInt64, target);
  const Density density = MeasureDensity(g, t);
  EXPECT_EQ(density.largest.element, 1);
  int64_t equal_count = 0;
  for (const Density::Cell& cell : density.cells) {
    if (cell.y == 0) equal_count += cell.count;
  }
  EXPECT_EQ(equal_count, 1);
  const Picture picture = MakePicture(DefaultSlice({4}, 0), g, t);
  EXPECT_EQ(picture.difference, (std::vector<double>{1, 0x1p54 + 4, 2, 0}));

  const std::vector<uint64_t> largest = {~uint64_t{0}};
  const std::vector<int64_t> least = {std::numeric_limits<int64_t>::min()};
  const Elements u = IntegersOf(DType::kUint64, largest);
  const Elements i = IntegersOf(DType::kInt64, least);
  EXPECT_EQ(ElementDifference(i, u, 0, -0x1p63, 0x1p64), 0x1.8p64);
  // Only one side has 64-bit integers.
  const std::vector<double> real = {0x1p53};
  EXPECT_EQ(ElementDifference(ElementsOf(real), t, 0, 0x1p53, 0x1p53), 1);
  EXPECT_EQ(ElementDifference(g, ElementsOf({kInfinity}), 0, 0x1p53, kInfinity),
            kInfinity);
}

TEST(ValueGridTest, NeighboursOfAFloatDiffer) {
  const std::vector<double> golden = {1};
  const std::vector<double> target = {1 + 0x1p-23};
  const Picture picture =
      MakePicture(DefaultSlice({1}, 0), ElementsOf(golden), ElementsOf(target));
  EXPECT_EQ(picture.difference, (std::vector<double>{0x1p-23}));
  EXPECT_TRUE(MakePicture(DefaultSlice({1}, 0), ElementsOf(golden), {})
                  .difference.empty());
}

TEST(ValueGridTest, DensityCountsEachElementOnce) {
  const std::vector<double> golden = {0, 1, 1.5, 2, -8, kNan, kInfinity, 1};
  const std::vector<double> target = {0, 1, 1.75, 2.5, -8.5, 1, 1, -kInfinity};
  const Density density =
      MeasureDensity(ElementsOf(golden), ElementsOf(target));
  EXPECT_EQ(density.element_count, 8);
  EXPECT_EQ(density.non_finite_count, 3);
  EXPECT_EQ(CountOf(density), 5);
  EXPECT_EQ(density.x_exponent, 0);
  EXPECT_EQ(density.y_exponent, -2);
  // NaN on one side is worse than any number.
  EXPECT_EQ(density.largest.element, 5);
  EXPECT_TRUE(std::isnan(density.largest.golden));
  EXPECT_EQ(density.largest.target, 1);
}

TEST(ValueGridTest, DensityFindsTheLargestDifferenceAfterManyElements) {
  std::vector<double> golden(10'000, 1.0);
  std::vector<double> target(10'000, 1.0);
  target[9'001] = 0.25;
  target[17] = 1.5;
  const Density density =
      MeasureDensity(ElementsOf(golden), ElementsOf(target));
  EXPECT_EQ(density.largest.element, 9'001);
  EXPECT_EQ(density.largest.difference, -0.75);
  EXPECT_EQ(CountOf(density), 10'000);
}

TEST(ValueGridTest, DensityOfAllMagnitudesIsBounded) {
  std::vector<double> golden;
  std::vector<double> target;
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    golden.push_back(std::ldexp(1.0, exponent));
    target.push_back(0);
  }
  const Density density =
      MeasureDensity(ElementsOf(golden), ElementsOf(target));
  EXPECT_EQ(CountOf(density), 2098);
  for (const Density::Cell& cell : density.cells) {
    EXPECT_GE(cell.x, 1);
    EXPECT_LE(cell.x, kDensityCellsMax);
    EXPECT_LE(cell.y, kDensityCellsMax);
  }
  EXPECT_TRUE(MeasureDensity(ElementsOf({}), ElementsOf({})).cells.empty());
}

TEST(ValueGridTest, TheDefaultSliceHasTheElement) {
  const Slice slice = DefaultSlice({2, 3, 1, 4, 5}, 119);
  EXPECT_EQ(slice.line_dim, 3);
  EXPECT_EQ(slice.column_dim, 4);
  EXPECT_EQ(slice.at, (std::vector<int64_t>{1, 2, 0, 3, 4}));
  EXPECT_EQ(slice.first(), 100);
  EXPECT_EQ(slice.last(), 119);
  EXPECT_EQ(DefaultSlice({7, 1, 6, 1}, -1).line_dim, 0);
  EXPECT_EQ(DefaultSlice({7, 1, 6, 1}, -1).column_dim, 2);
  const Slice line = DefaultSlice({4}, 2);
  EXPECT_EQ(line.line_dim, -1);
  EXPECT_EQ(line.lines(), 1);
  EXPECT_EQ(line.columns(), 4);
  EXPECT_EQ(line.last(), 3);
  const Slice scalar = DefaultSlice({}, 0);
  EXPECT_EQ(scalar.last(), 0);
  EXPECT_EQ(scalar.columns(), 1);
  EXPECT_EQ(DefaultSlice({1, 4}, 2).line_dim, 0);
}

TEST(ValueGridTest, APictureOfAnyTwoDimensionsHasTheirElements) {
  std::vector<double> golden(2 * 3 * 4);
  for (size_t i = 0; i < golden.size(); ++i) golden[i] = static_cast<double>(i);
  Slice slice{{2, 3, 4}, 0, 1, {0, 0, 2}};
  EXPECT_EQ(slice.first(), 2);
  EXPECT_EQ(slice.last(), 22);
  const std::vector<double> part(golden.begin() + 2, golden.begin() + 23);
  const Picture picture = MakePicture(slice, ElementsOf(part), {});
  EXPECT_EQ(picture.golden, (std::vector<double>{2, 6, 10, 14, 18, 22}));
  EXPECT_EQ(picture.target, (std::vector<double>(6)));
}

TEST(ValueGridTest, ACellIsTheWorstElementOfItsBlock) {
  const int64_t side = 3 * kPictureCellsMax - 1;
  std::vector<double> golden(static_cast<size_t>(side * side), 1.0);
  std::vector<double> target = golden;
  const auto at = [side](int64_t line, int64_t column) {
    return static_cast<size_t>(line * side + column);
  };
  target[at(4, 7)] = 3;
  target[at(5, 8)] = -8;
  target[at(side - 1, side - 1)] = kNan;
  const Slice slice = DefaultSlice({side, side}, 0);
  const Picture picture =
      MakePicture(slice, ElementsOf(golden), ElementsOf(target));
  EXPECT_EQ(picture.lines, kPictureCellsMax);
  EXPECT_EQ(picture.columns, kPictureCellsMax);
  EXPECT_EQ(picture.line_step, 3);
  const size_t cell = static_cast<size_t>(kPictureCellsMax + 2);
  EXPECT_EQ(picture.target[cell], -8);
  EXPECT_TRUE(std::isnan(picture.target.back()));
  EXPECT_EQ(picture.golden.back(), 1);
  EXPECT_EQ(picture.target[0], 1);
}

}  // namespace
}  // namespace msitd::web
