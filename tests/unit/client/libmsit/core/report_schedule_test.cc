// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/report_schedule.h"

#include <gtest/gtest.h>

#include <chrono>

namespace msitd::libmsit {
namespace {

using std::chrono::hours;

class ReportScheduleTest : public ::testing::Test {
 protected:
  DeliveryLedger ledger_;
  RecordFilter filter_;
  RecordingTime time_;
  StreamTokens tokens_{/*appends=*/false, /*has_late_base=*/false};
  ReportSchedule schedule_{hours(1), ledger_, filter_, time_, tokens_};
};

TEST_F(ReportScheduleTest, ReportsOnceWhileNothingChanges) {
  schedule_.Restart();
  const auto first = schedule_.ReportTime(/*is_last=*/false);
  ASSERT_TRUE(first.has_value());
  EXPECT_LE(*first, ReportSchedule::Clock::now());
  schedule_.TakeReport();
  EXPECT_FALSE(schedule_.ReportTime(/*is_last=*/false).has_value());
}

TEST_F(ReportScheduleTest, ReportsAChangeAfterTheInterval) {
  schedule_.Restart();
  schedule_.TakeReport();
  ledger_.Drop();
  const auto next = schedule_.ReportTime(/*is_last=*/false);
  ASSERT_TRUE(next.has_value());
  EXPECT_GT(*next, ReportSchedule::Clock::now());
  EXPECT_EQ(schedule_.ReportTime(/*is_last=*/true),
            ReportSchedule::Clock::time_point::min());
  EXPECT_EQ(schedule_.TakeReport().coverage.dropped_count, 1);
}

TEST_F(ReportScheduleTest, ReportsTimeOnlyAtTheEnd) {
  schedule_.Restart();
  schedule_.TakeReport();
  time_.Enter();
  time_.Leave();
  while (time_.ticks() == 0) {
    time_.Enter();
    time_.Leave();
  }
  EXPECT_FALSE(schedule_.ReportTime(/*is_last=*/false).has_value());
  EXPECT_TRUE(schedule_.ReportTime(/*is_last=*/true).has_value());
}

TEST_F(ReportScheduleTest, PollsForTokensUntilNoneBegin) {
  schedule_.Restart();
  tokens_.Begin(0);
  EXPECT_TRUE(schedule_.PollTokens());
  EXPECT_EQ(schedule_.TakeReport().token_end, 1);
  EXPECT_FALSE(schedule_.PollTokens()) << "the next poll is not due";
  EXPECT_GT(schedule_.poll_time(), ReportSchedule::Clock::now());
}

TEST_F(ReportScheduleTest, WaitsForTheNextTokenAfterAPollInVain) {
  schedule_.Restart();
  EXPECT_FALSE(schedule_.PollTokens());
  EXPECT_EQ(schedule_.poll_time(), ReportSchedule::Clock::time_point::max());
  const auto awaited = tokens_.Begin(0);
  ASSERT_TRUE(awaited.has_value());
  schedule_.OnAwaited(*awaited);
  EXPECT_LE(schedule_.poll_time(), ReportSchedule::Clock::now());
  EXPECT_TRUE(schedule_.PollTokens());
}

}  // namespace
}  // namespace msitd::libmsit
