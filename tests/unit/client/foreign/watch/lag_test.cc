// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/lag.h"

#include <gtest/gtest.h>

namespace msitd::watch {
namespace {

using std::chrono::milliseconds;

TEST(LagTest, QuantilesAreThoseOfWhatWasAdded) {
  Lag lag;
  EXPECT_EQ(lag.Quantile(0.99), milliseconds(0));
  for (int i = 1; i <= 100; ++i) lag.Add(milliseconds(10 * i));
  EXPECT_EQ(lag.Quantile(0.5), milliseconds(500));
  EXPECT_EQ(lag.Quantile(0.99), milliseconds(990));
  EXPECT_EQ(lag.Quantile(1), milliseconds(1000));
  EXPECT_EQ(lag.count(), 100);
}

TEST(LagTest, ClockThatWasSetMakesNoNonsense) {
  Lag lag;
  lag.Add(milliseconds(-3'600'000));
  EXPECT_EQ(lag.max(), milliseconds(0));
  lag.Add(milliseconds(3'600'000));
  EXPECT_EQ(lag.Quantile(1), milliseconds(60'000));
  EXPECT_EQ(lag.max(), milliseconds(3'600'000));
}

}  // namespace
}  // namespace msitd::watch
