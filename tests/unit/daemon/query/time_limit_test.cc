// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/time_limit.h"

#include <gtest/gtest.h>

#include <chrono>

#include "protos/status/status.h"

namespace msitd::query {
namespace {

TEST(TimeLimitTest, EndsWorkAtItsTimeOrWhenItIsStopped) {
  absl::Status answer;
  const auto stop = [&answer] { return answer; };
  const TimeLimit late(std::chrono::seconds(0), stop);
  const TimeLimit early(std::chrono::hours(1), stop);
  EXPECT_EQ(late.Check().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Reason(late.Check()), "QUERY_TOO_LONG");
  EXPECT_TRUE(early.Check().ok());
  answer = absl::CancelledError("gone");
  EXPECT_TRUE(absl::IsCancelled(late.Check()));
  EXPECT_TRUE(absl::IsCancelled(early.Check()));
}

}  // namespace
}  // namespace msitd::query
