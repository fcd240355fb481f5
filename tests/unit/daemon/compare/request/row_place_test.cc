// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using Shape = std::vector<int64_t>;

constexpr BatchShape kPadded{2, 9, 2};
constexpr BatchShape kPacked{7, 0, 3};

// Row 1, columns 4 to 8 of kPadded: positions 10 to 14.
constexpr RequestPiece kPiece{0, {10, 15}, {1, 2}, {4, 9}, kPadded, 1};

// Returns the numbers of the elements that are cut out of a tensor.
std::vector<uint64_t> Cut(const Shape& shape, const RequestPiece& piece,
                          RowRange positions, Shape* cut_shape = nullptr) {
  const std::optional<RowPlace> place = FindRows(shape, piece.batch);
  EXPECT_TRUE(place.has_value());
  if (!place.has_value()) return {};
  const Gather gather =
      CutPositions(Gather::OfLeaf(0, shape), *place, piece, positions);
  if (cut_shape != nullptr) *cut_shape = gather.shape();
  std::vector<uint64_t> out;
  gather.VisitRuns(0, gather.element_count(), [&](const GatherRun& run) {
    for (uint64_t i = 0; i < run.count; ++i) {
      for (uint64_t j = 0; j < run.length; ++j) {
        out.push_back(run.from + i * run.stride + j);
      }
    }
  });
  return out;
}

TEST(RowPlaceTest, RowsAndColumnsAreInFrontInEitherOrder) {
  EXPECT_EQ(FindRows(Shape{2, 9, 5}, kPadded), (RowPlace{false, 0, 1}));
  EXPECT_EQ(FindRows(Shape{9, 2, 5}, kPadded), (RowPlace{false, 1, 0}));
  EXPECT_EQ(FindRows(Shape{18, 5}, kPadded), (RowPlace{true, 0, 1}));
  Shape shape;
  EXPECT_THAT(Cut({2, 9, 2}, kPiece, {11, 13}, &shape),
              ElementsAre(28, 29, 30, 31));
  EXPECT_THAT(shape, ElementsAre(2, 2));
  EXPECT_THAT(Cut({9, 2, 1}, kPiece, {11, 13}), ElementsAre(11, 13));
  EXPECT_THAT(Cut({18, 1}, kPiece, {11, 13}), ElementsAre(14, 15));
}

TEST(RowPlaceTest, HeadsMayBeBetweenRowsAndColumns) {
  EXPECT_EQ(FindRows(Shape{2, 4, 9, 3}, kPadded), (RowPlace{false, 0, 2}));
  Shape shape;
  // Row 1 begins at 2 * 9; the columns of a position of both heads follow.
  EXPECT_THAT(Cut({2, 2, 9, 1}, kPiece, {10, 12}, &shape),
              ElementsAre(22, 31, 23, 32));
  EXPECT_THAT(shape, ElementsAre(2, 2));
  EXPECT_EQ(FindRows(Shape{2, 4, 9, 9}, kPadded), (RowPlace{false, 0, 2, 3}));
  Cut({2, 4, 9, 9}, kPiece, {10, 15}, &shape);
  EXPECT_THAT(shape, ElementsAre(5, 4, 5));
}

TEST(RowPlaceTest, TensorsMayBeTheSameForAllRows) {
  EXPECT_EQ(FindRows(Shape{1, 9, 5}, kPadded),
            (RowPlace{false, std::nullopt, 1}));
  EXPECT_EQ(FindRows(Shape{9}, kPadded), (RowPlace{false, std::nullopt, 0}));
  EXPECT_THAT(Cut({1, 9, 1}, kPiece, {10, 12}), ElementsAre(4, 5));
  Shape shape;
  Cut({1, 1, 9, 9}, kPiece, {10, 15}, &shape);
  EXPECT_THAT(shape, ElementsAre(5, 5));
}

TEST(RowPlaceTest, TensorsMayHaveOnlyTheLastColumn) {
  const std::optional<RowPlace> place = FindRows(Shape{2, 1, 50}, kPadded);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(PositionsIn(*place, kPiece), (RowRange{14, 15}));
  RequestPiece padded_at_the_right = kPiece;
  padded_at_the_right.columns = {0, 5};
  EXPECT_EQ(PositionsIn(*place, padded_at_the_right).size(), 0);
  const std::optional<RowPlace> pooled = FindRows(Shape{2, 50}, kPadded);
  ASSERT_TRUE(pooled.has_value());
  EXPECT_EQ(PositionsIn(*pooled, padded_at_the_right), (RowRange{14, 15}));
  EXPECT_THAT(Cut({2, 1, 2}, kPiece, {14, 15}), ElementsAre(2, 3));
  EXPECT_THAT(Cut({2, 3}, kPiece, {14, 15}), ElementsAre(3, 4, 5));
}

TEST(RowPlaceTest, PackedRowsAreTheFirstDimension) {
  const RequestPiece piece{0, {3, 5}, {4, 6}, {0, 1}, kPacked, 1};
  EXPECT_EQ(FindRows(Shape{7, 2}, kPacked), (RowPlace{false, 0}));
  EXPECT_THAT(Cut({7, 2}, piece, {4, 5}), ElementsAre(10, 11));
  EXPECT_THAT(Cut({1, 7}, piece, {3, 5}), ElementsAre(4, 5));
  // Logits of the last position of each of three requests.
  EXPECT_THAT(Cut({3, 2}, piece, {4, 5}), ElementsAre(2, 3));
}

TEST(RowPlaceTest, OtherShapesHaveNoRows) {
  for (const Shape& shape :
       {Shape{}, Shape{5}, Shape{4, 4}, Shape{3, 9}, Shape{2, 9, 9, 9, 9},
        Shape{0}, Shape{2, 4, 9, 2, 9}}) {
    if (shape == Shape{2, 9, 9, 9, 9}) continue;  // Rows and columns in front.
    EXPECT_FALSE(FindRows(shape, kPadded).has_value());
  }
  EXPECT_FALSE(FindRows(Shape{6, 2}, kPacked).has_value());
}

}  // namespace
}  // namespace msitd::compare
