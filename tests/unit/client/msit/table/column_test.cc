// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/column.h"

#include <gtest/gtest.h>

namespace msitd::msit_command {
namespace {

// The expected values are printed by pandas after it has read the same cells.
TEST(Column, ShowsWhatPandasMakesOfItsCells) {
  EXPECT_EQ(Column({"true", "FALSE"}).Shown(1, false), "False");
  EXPECT_EQ(Column({"007", "+2"}).Shown(0, false), "7");
  EXPECT_EQ(Column({"007", "+2"}).Shown(1, true), "2.0");
  EXPECT_EQ(Column({"1", ""}).Shown(0, false), "1.0");
  EXPECT_EQ(Column({"1", "0.25"}).Shown(0, false), "1.0");
  EXPECT_EQ(Column({"1", "[2]"}).Shown(0, false), "1");
  EXPECT_EQ(Column({"1e-05"}).Shown(0, false), "1e-05");
}

TEST(Column, KnowsCellsWithoutAValue) {
  const Column column({"", "nan", "NULL", "nil", "0"});
  EXPECT_TRUE(column.is_missing(0));
  EXPECT_TRUE(column.is_missing(1));
  EXPECT_TRUE(column.is_missing(2));
  EXPECT_FALSE(column.is_missing(3));
  EXPECT_FALSE(column.is_missing(4));
}

TEST(Column, EqualValuesOfSeveralTypesHaveEqualKeys) {
  const std::string one = Column({"1"}).Key(0);
  EXPECT_EQ(one, Column({"1.0"}).Key(0));
  EXPECT_EQ(one, Column({"True"}).Key(0));
  EXPECT_NE(one, Column({"1", "x"}).Key(0));
  EXPECT_NE(one, Column({"2"}).Key(0));
}

}  // namespace
}  // namespace msitd::msit_command
