// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/latencies.h"

#include <gtest/gtest.h>

namespace msitd::metrics {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(LatenciesTest, ADurationIsInAllBucketsThatAreAsLongOrLonger) {
  Latencies latencies;
  latencies.Add(microseconds(100));  // The bound itself.
  latencies.Add(microseconds(101));
  latencies.Add(milliseconds(3));
  const Latencies::Snapshot found = latencies.Read();
  EXPECT_EQ(found.cumulative[0], 1u);
  EXPECT_EQ(found.cumulative[1], 2u);
  EXPECT_EQ(found.cumulative[4], 2u);  // 2.5 ms.
  EXPECT_EQ(found.cumulative[5], 3u);
  EXPECT_EQ(found.cumulative.back(), 3u);
  EXPECT_EQ(found.count, 3u);
  EXPECT_NEAR(found.sum_s, 0.003201, 1e-12);
}

TEST(LatenciesTest, WhatIsLongerThanAllBoundsCountsAll) {
  Latencies latencies;
  latencies.Add(hours(1));
  const Latencies::Snapshot found = latencies.Read();
  EXPECT_EQ(found.cumulative.back(), 0u);
  EXPECT_EQ(found.count, 1u);
  EXPECT_EQ(found.sum_s, 3600);
}

TEST(LatenciesTest, AClockThatGoesBackCountsAsNoTime) {
  Latencies latencies;
  latencies.Add(milliseconds(-5));
  EXPECT_EQ(latencies.Read().cumulative[0], 1u);
  EXPECT_EQ(latencies.Read().sum_s, 0);
}

}  // namespace
}  // namespace msitd::metrics
