// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/rate_limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::access {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int Admitted(RateLimits& limits, std::string_view caller,
             RateLimits::Clock::time_point now, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += limits.Enter(caller, now).ok();
  return count;
}

TEST(RateLimitsTest, ACallerHasABurstAndThenItsRate) {
  RateLimits limits(10);
  const auto start = RateLimits::Clock::now();
  EXPECT_EQ(Admitted(limits, "a", start, 100), 20);
  EXPECT_EQ(Admitted(limits, "a", start + milliseconds(500), 100), 5);
  EXPECT_EQ(Admitted(limits, "a", start + seconds(3600), 100), 20);
}

TEST(RateLimitsTest, ANewLimitHoldsForTheNextCall) {
  RateLimits limits(0);
  const auto start = RateLimits::Clock::now();
  EXPECT_EQ(Admitted(limits, "a", start, 1000), 1000);
  limits.SetLimit(10);
  EXPECT_EQ(Admitted(limits, "a", start, 100), 20);
  limits.SetLimit(1);
  EXPECT_EQ(Admitted(limits, "a", start + seconds(3600), 100), 2);
  limits.SetLimit(0);
  EXPECT_EQ(Admitted(limits, "a", start + seconds(3600), 1000), 1000);
}

TEST(RateLimitsTest, CallersDoNotShare) {
  RateLimits limits(1);
  const auto start = RateLimits::Clock::now();
  EXPECT_EQ(Admitted(limits, "a", start, 10), 2);
  EXPECT_EQ(Admitted(limits, "b", start, 10), 2);
  const absl::Status refused = limits.Enter("a", start);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), "REQUESTS_EXHAUSTED");
}

TEST(RateLimitsTest, ZeroIsNoBound) {
  RateLimits limits(0);
  EXPECT_EQ(Admitted(limits, "a", RateLimits::Clock::now(), 100'000), 100'000);
}

TEST(RateLimitsTest, MoreCallersThanAreRememberedShare) {
  RateLimits limits(1);
  const auto start = RateLimits::Clock::now();
  for (size_t i = 0; i < RateLimits::kCallersMax; ++i) {
    EXPECT_TRUE(limits.Enter(fmt::format("caller {}", i), start).ok());
  }
  int count = 0;
  for (int i = 0; i < 100; ++i) {
    count += limits.Enter(fmt::format("new {}", i), start).ok();
  }
  EXPECT_LE(count, 2);
  // Inactive callers are forgotten, which frees space.
  EXPECT_TRUE(limits.Enter("later", start + seconds(10)).ok());
}

}  // namespace
}  // namespace msitd::access
