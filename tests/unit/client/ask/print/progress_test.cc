// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/progress.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

TEST(ProgressTest, HasPercentAndTimeLeft) {
  EXPECT_EQ(ProportionText(42, 100, 30), ", 42 %, 41s left");
  EXPECT_EQ(ProportionText(1, 3, 60), ", 33 %, 2m00s left");
  EXPECT_EQ(ProportionText(100, 100, 30), ", 100 %, 0s left");
}

TEST(ProgressTest, DoesNotGuess) {
  EXPECT_EQ(ProportionText(42, 100, 1), ", 42 %");
  EXPECT_EQ(ProportionText(1, 1000, 60), ", 0 %");
  EXPECT_EQ(ProportionText(42, 0, 60), "");
}

TEST(ProgressTest, RunsThatGrowAreNeverMoreThanComplete) {
  EXPECT_EQ(ProportionText(120, 100, 30), ", 100 %, 0s left");
}

}  // namespace
}  // namespace msitd::ask
