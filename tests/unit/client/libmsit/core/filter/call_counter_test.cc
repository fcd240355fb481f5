// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/call_counter.h"

#include <gtest/gtest.h>

namespace msitd::libmsit {
namespace {

TEST(CallCounterTest, NumbersEachNameWithinEachToken) {
  CallCounter counter;
  EXPECT_EQ(counter.Next(0, "a"), 0);
  EXPECT_EQ(counter.Next(0, "a"), 1);
  EXPECT_EQ(counter.Next(0, "b"), 0);
  EXPECT_EQ(counter.Next(1, "a"), 0);
  EXPECT_EQ(counter.Next(0, "a"), 2);
}

TEST(CallCounterTest, ForgetsTheLowestTokenWhenFull) {
  CallCounter counter(/*names_max=*/3);
  EXPECT_EQ(counter.Next(5, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 0);
  EXPECT_EQ(counter.Next(8, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 1);
  EXPECT_EQ(counter.Next(8, "a"), 1);
  EXPECT_EQ(counter.Next(9, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0) << "6 was forgotten";
}

TEST(CallCounterTest, RefusesMoreNamesInOneTokenThanItHolds) {
  CallCounter counter(/*names_max=*/2);
  EXPECT_TRUE(counter.Next(0, "a").has_value());
  EXPECT_TRUE(counter.Next(0, "b").has_value());
  EXPECT_FALSE(counter.Next(0, "c").has_value());
  EXPECT_EQ(counter.Next(0, "b"), 1);
}

}  // namespace
}  // namespace msitd::libmsit
