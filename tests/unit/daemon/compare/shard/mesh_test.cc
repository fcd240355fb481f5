// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Mesh MeshOf(const std::string& text) { return Mesh(*ParsePlacement(text)); }

std::vector<int32_t> RanksOf(const Mesh& mesh) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < mesh.size(); ++i) out.push_back(mesh.RankAt(i));
  return out;
}

TEST(MeshTest, RanksAscendWhateverTheOrderOfTheDimensions) {
  EXPECT_THAT(RanksOf(MeshOf("0+2x2/4x1:R,R")), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(RanksOf(MeshOf("2+2x2/1x4:R,R")), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(RanksOf(MeshOf("3+1/7:R")), ElementsAre(3));
  EXPECT_EQ(MeshOf("2+2x2/1x4:R,R").last_rank(), 7);
}

TEST(MeshTest, RowsAreRanksWithoutGaps) {
  EXPECT_EQ(MeshOf("2+2x3/3x1:R,R").row_size(), 6);
  EXPECT_EQ(MeshOf("2+2x3/1x2:R,R").row_size(), 6);
  EXPECT_EQ(MeshOf("0+2x3/4x1:R,R").row_size(), 3);
  EXPECT_EQ(MeshOf("0+2x3/6x2:R,R").row_size(), 1);
  EXPECT_EQ(MeshOf("5+1/7:R").row_size(), 1);
}

TEST(MeshTest, KnowsItsRanksAndWhereTheyAre) {
  const Mesh mesh = MeshOf("2+2x1x3/1x1x4:R,R,R");
  EXPECT_THAT(RanksOf(mesh), ElementsAre(2, 3, 6, 7, 10, 11));
  for (int32_t rank = 0; rank < 20; ++rank) {
    const auto index = mesh.IndexOf(rank);
    const bool is_in = rank >= 2 && rank < 12 && rank % 4 >= 2;
    ASSERT_EQ(index.has_value(), is_in) << rank;
    if (!is_in) continue;
    EXPECT_EQ((*index)[0], rank % 4 - 2);
    EXPECT_EQ((*index)[1], 0);
    EXPECT_EQ((*index)[2], rank / 4);
  }
}

TEST(MeshTest, PlacesNumberTheMeshesThatFillTheRanks) {
  const auto group_number = [](const std::string& mesh) {
    return MeshOf(mesh).group_number();
  };
  EXPECT_EQ(group_number("0+4/1:R"), 0);
  EXPECT_EQ(group_number("4+4/1:R"), 1);
  EXPECT_EQ(group_number("8+4/1:R"), 2);
  // The columns of a 2 x 4 mesh.
  for (int column = 0; column < 4; ++column) {
    EXPECT_EQ(group_number(std::to_string(column) + "+2/4:R"), column);
  }
  EXPECT_EQ(group_number("8+2/4:R"), 4);
  // The outer two dimensions of a 2 x 2 x 3 mesh.
  EXPECT_EQ(group_number("2+2x2/6x3:R,R"), 2);
  EXPECT_EQ(group_number("7+1/1:R"), 7);
  // Meshes that do not combine with any other mesh.
  EXPECT_EQ(group_number("2+5/1:R"), 0);
  EXPECT_EQ(group_number("6+5/1:R"), 1);
}

TEST(MeshTest, NumbersOfOneFormAreDifferent) {
  for (const std::string form : {"+2/1:R", "+2/3:R", "+2x2/6x1:R,R"}) {
    std::vector<int32_t> group_numbers(12, -1);
    for (int first = 0; first < 12; ++first) {
      const Mesh mesh = MeshOf(std::to_string(first) + form);
      // Among meshes that fill the ranks, each begins at a rank that no other
      // mesh has.
      if (group_numbers[first] != -1) continue;
      for (int32_t i = 0; i < mesh.size(); ++i) {
        if (mesh.RankAt(i) < 12)
          group_numbers[mesh.RankAt(i)] = mesh.group_number();
      }
    }
    const auto size = static_cast<int32_t>(MeshOf("0" + form).size());
    for (int32_t group_number = 0; group_number < 12 / size; ++group_number) {
      EXPECT_EQ(
          std::count(group_numbers.begin(), group_numbers.end(), group_number),
          size)
          << form << " " << group_number;
    }
  }
}

TEST(MeshSetTest, KnowsTheNumbersOfARank) {
  const MeshSet meshes({"0+2/1:S(0)", "0+2/1:R", "2+2/1:S(0)", "0+4/1:R", "x"});
  const auto group_numbers = [&meshes](int32_t rank) {
    std::vector<int32_t> out;
    meshes.AddGroupNumbersOf(rank, out);
    return out;
  };
  EXPECT_THAT(group_numbers(1), ElementsAre(0, 0));
  EXPECT_THAT(group_numbers(2), ElementsAre(1, 0));
  EXPECT_THAT(group_numbers(4), IsEmpty());
  EXPECT_TRUE(MeshSet().empty());
  EXPECT_TRUE(MeshSet(std::vector<std::string>{"x"}).empty());
}

TEST(MeshSetTest, WaitsForTheRanksOfAPlace) {
  const MeshSet meshes({"0+2/1:S(0)", "2+2/1:S(0)"});
  const RankCount four{4, true};
  EXPECT_TRUE(meshes.AreBeyond(5, 0, four, {{0, 6}, {1, 6}}));
  EXPECT_FALSE(meshes.AreBeyond(6, 0, four, {{0, 6}, {1, 7}}));
  EXPECT_FALSE(meshes.AreBeyond(5, 0, four, {{0, 6}, {2, 6}, {3, 6}}));
  EXPECT_TRUE(meshes.AreBeyond(5, 1, four, {{2, 6}, {3, 6}}));
  EXPECT_TRUE(meshes.AreBeyond(5, 2, four, {}));
  // Ranks that will not appear are not waited for.
  EXPECT_TRUE(meshes.AreBeyond(5, 1, {2, true}, {}));
  EXPECT_FALSE(meshes.AreBeyond(5, 1, {2, false}, {}));
}

}  // namespace
}  // namespace msitd::compare
