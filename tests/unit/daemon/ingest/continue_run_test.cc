// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/continue_run.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::ingest {
namespace {

using storage::RunContinuations;

TEST(ContinueRunTest, RanksOfAJobBeginAtTheTokenOfTheFirst) {
  RunContinuations rank0;
  const Continued first = Continue(rank0, "job", 10, 7);
  EXPECT_EQ(first.first_token, 7);
  EXPECT_TRUE(first.has_new_job);
  EXPECT_TRUE(first.has_changed);
  RunContinuations rank1{.jobs = rank0.jobs, .rank = {}};
  const Continued second = Continue(rank1, "job", 11, 9);
  EXPECT_EQ(second.first_token, 7);
  EXPECT_FALSE(second.has_new_job);
  EXPECT_TRUE(second.has_changed);
  EXPECT_EQ(rank1.jobs, rank0.jobs);
  EXPECT_TRUE(HasContinued(rank1, "job"));
  EXPECT_FALSE(HasContinued(rank1, "other"));
}

TEST(ContinueRunTest, StreamThatReconnectsChangesNothing) {
  RunContinuations known;
  Continue(known, "job", 10, 7);
  const Continued again = Continue(known, "job", 10, 9);
  EXPECT_EQ(again.first_token, 7);
  EXPECT_FALSE(again.has_changed);
}

TEST(ContinueRunTest, RankThatComesAgainBeginsAnotherContinuation) {
  RunContinuations known;
  Continue(known, "job", 10, 7);
  const Continued again = Continue(known, "job", 12, 9);
  EXPECT_EQ(again.first_token, 9);
  EXPECT_TRUE(again.has_new_job);
  ASSERT_EQ(known.jobs.size(), 1u);
  EXPECT_EQ(known.jobs[0].number, 2u);
  EXPECT_EQ(known.rank->number, 2u);
}

// The jobs can be lost if the index was rebuilt.
TEST(ContinueRunTest, RankWhoseJobsAreLostComesBehindWhatItTookPartIn) {
  RunContinuations known{.jobs = {}, .rank = {{.number = 5, .stream_id = 10}}};
  const Continued next = Continue(known, "job", 12, 7);
  EXPECT_TRUE(next.has_new_job);
  ASSERT_EQ(known.jobs.size(), 1u);
  EXPECT_EQ(known.jobs[0].number, 6u);
  EXPECT_EQ(known.rank->number, 6u);
}

TEST(ContinueRunTest, OldestJobIsForgotten) {
  RunContinuations known;
  for (size_t i = 0; i <= storage::kContinuationsMax; ++i) {
    known.rank.reset();
    Continue(known, "job " + std::to_string(i), 10 + i,
             static_cast<int64_t>(i));
  }
  EXPECT_EQ(known.jobs.size(), storage::kContinuationsMax);
  EXPECT_FALSE(HasContinued(known, "job 0"));
  EXPECT_TRUE(HasContinued(known, "job 1"));
  EXPECT_EQ(known.jobs.back().number, storage::kContinuationsMax + 1);
}

}  // namespace
}  // namespace msitd::ingest
